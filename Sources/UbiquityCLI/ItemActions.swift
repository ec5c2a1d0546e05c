import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

/// How much a command on many items prints.
struct BulkOptions: ParsableArguments {
    @Flag(name: .shortAndLong, help: "Print a line for each item of a folder, not only a sum.")
    var verbose = false

    @Flag(name: .shortAndLong, help: "Print errors only.")
    var quiet = false

    func validate() throws {
        if verbose, quiet { throw ValidationError("--verbose and --quiet exclude each other") }
    }
}

/// The shared part of download, evict, pin and unpin: sends the paths to the daemon and prints its results.
///
/// A path that names one item yields one line. A folder yields one sum, or with `--verbose` one line for each item.
struct ItemAction {
    /// The route at the daemon.
    var route: String
    /// "downloading", for the progress line.
    var doing: String
    /// "downloaded", for the result.
    var done: String
    /// "already here", for an item that needed nothing.
    var already: String
    /// Whether the remaining bytes of the mount's downloads measure the progress.
    var downloads = false
    /// For evictions, in seconds: how long the files were not used; nil for all files.
    var unusedFor: Double?

    /// Runs the action. Ends with exit code 1 if an item failed, and with 3 if nothing was done because the cloud is
    /// unreachable.
    func run(paths: [String], _ state: StateOptions, _ output: OutputOptions, _ bulk: BulkOptions) async throws {
        let located = try LocatedPaths(paths, state)
        let results = Results(action: self, asJSON: output.asJSON, bulk: bulk)
        for result in located.elsewhere { try results.add(result, among: []) }
        try await Progress.showing("\(doing) …", unless: bulk.quiet) { progress in
            try await located.forEachMount { daemon, items in
                let watch = downloads ? DownloadWatch(doing, daemon, progress) : nil
                defer { watch?.end() }
                try await perform(on: items.map(\.relativePath), daemon) { result in
                    progress.clear()
                    try results.add(result, among: items)
                    if watch?.isShown != true { progress.update("\(doing) … \(Output.count(results.count, "item"))") }
                }
                progress.clear()
                try results.printSum()
            }
        }
        guard results.failures > 0 else { return }
        throw ExitCode(results.failedForWantOfCloud ? ExitStatus.unreachable : ExitStatus.failed)
    }

    private func perform(
        on paths: [String], _ daemon: DaemonConnection, each: (ItemResult) async throws -> Void
    ) async throws {
        guard let unusedFor else { return try await daemon.act(route, on: paths, each: each) }
        try await daemon.evict(EvictRequest(paths: paths, unusedFor: unusedFor), each: each)
    }

    /// Prints results as they arrive and counts those that only the sum shows.
    private final class Results {
        private let action: ItemAction
        private let asJSON: Bool
        private let bulk: BulkOptions
        private var done = 0
        private var unreached = 0
        private(set) var failures = 0
        private var sum = Sum()

        private struct Sum {
            /// The folder on the command line to which the results belong.
            var folder: String?
            var changed = 0
            var unchanged = 0
            var failed = 0
            var bytes: Int64 = 0
        }

        init(action: ItemAction, asJSON: Bool, bulk: BulkOptions) {
            self.action = action
            self.asJSON = asJSON
            self.bulk = bulk
        }

        var count: Int { done + failures }
        var failedForWantOfCloud: Bool { done == 0 && failures == unreached }

        func add(_ result: ItemResult, among items: [LocatedPaths.Item]) throws {
            if result.done { done += 1 } else { failures += 1 }
            if let error = result.error?.error, error.isAboutCloud { unreached += 1 }
            let folder = LocatedPaths.item(of: result.path, among: items)
            var result = result
            result.path = LocatedPaths.shown(result.path, among: items)
            if let error = result.error { Output.error(error.error, about: result.path) }
            if asJSON { return try Output.json(result) }
            let isItself = folder == nil || folder?.typed == result.path
            guard !isItself, !bulk.verbose else { return printLine(result) }
            if sum.folder != folder?.typed { try printSum() }
            sum.folder = folder?.typed
            if !result.done {
                sum.failed += 1
            } else if result.unchanged == true {
                sum.unchanged += 1
            } else {
                sum.changed += 1
                sum.bytes += result.bytes ?? 0
            }
        }

        private func printLine(_ result: ItemResult) {
            guard result.done, !bulk.quiet else { return }
            let path = Output.shown(result.path)
            Output.line(result.unchanged == true ? "\(path) is \(action.already)" : "\(action.done) \(path)")
        }

        /// "downloaded 12 items in Documents, 3.4 MiB; 3 already here; 1 failed".
        func printSum() throws {
            defer { sum = Sum() }
            guard let folder = sum.folder, !bulk.quiet else { return }
            var text = "\(action.done) \(Output.count(sum.changed, "item")) in \(Output.shown(folder))"
            if sum.bytes > 0 { text += ", \(ByteSize.text(sum.bytes))" }
            if sum.unchanged > 0 { text += "; \(sum.unchanged) \(action.already)" }
            if sum.failed > 0 { text += "; \(sum.failed) failed" }
            Output.line(text)
        }
    }
}
