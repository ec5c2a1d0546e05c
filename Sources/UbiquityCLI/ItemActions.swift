import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

/// What download, evict, pin and unpin have in common: paths go to the daemon, one line comes back for each item.
struct ItemAction {
    /// The address at the daemon.
    var route: String
    /// "downloading", for the line shown meanwhile.
    var doing: String
    /// "downloaded", for the result.
    var done: String

    /// Carries it out. Ends with exit code 1 if an item failed.
    func run(paths: [String], _ state: StateOptions, asJSON: Bool) async throws {
        let located = try LocatedPaths(paths, state)
        var failures = located.elsewhere.count
        for result in located.elsewhere { try report(result, among: [], asJSON: asJSON) }
        try await Progress.showing("\(doing) …") { progress in
            var count = 0
            try await located.forEachMount { daemon, items in
                try await daemon.act(route, on: items.map(\.relativePath)) { result in
                    progress.clear()
                    if !result.done { failures += 1 }
                    try report(result, among: items, asJSON: asJSON)
                    count += 1
                    progress.update("\(doing) … \(Output.count(count, "item"))")
                }
            }
        }
        if failures > 0 { throw ExitCode(ExitStatus.failed) }
    }

    private func report(_ result: ItemResult, among items: [LocatedPaths.Item], asJSON: Bool) throws {
        var result = result
        result.path = LocatedPaths.shown(result.path, among: items)
        if asJSON {
            try Output.json(result)
        } else if let error = result.error {
            Output.message("\(result.path): \(error.text)")
        } else {
            Output.line("\(done) \(Output.shown(result.path))")
        }
    }
}
