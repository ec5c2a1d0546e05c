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

    /// Carries it out. Ends with exit code 1 if an item failed, and with 3 if nothing was done for want of the cloud.
    func run(paths: [String], _ state: StateOptions, asJSON: Bool) async throws {
        let located = try LocatedPaths(paths, state)
        var failures = located.elsewhere.count, done = 0, unreached = 0
        for result in located.elsewhere { try report(result, among: [], asJSON: asJSON) }
        try await Progress.showing("\(doing) …") { progress in
            var count = 0
            try await located.forEachMount { daemon, items in
                try await daemon.act(route, on: items.map(\.relativePath)) { result in
                    progress.clear()
                    if result.done { done += 1 } else { failures += 1 }
                    if let error = result.error?.error, error.isAboutCloud { unreached += 1 }
                    try report(result, among: items, asJSON: asJSON)
                    count += 1
                    progress.update("\(doing) … \(Output.count(count, "item"))")
                }
            }
        }
        guard failures > 0 else { return }
        throw ExitCode(done == 0 && failures == unreached ? ExitStatus.unreachable : ExitStatus.failed)
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
