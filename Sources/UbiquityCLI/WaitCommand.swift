import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

struct WaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until items are uploaded or downloaded, or nothing is pending.",
        discussion: "With several conditions all must hold. Without a condition it waits as with --idle.")

    @Flag(help: "Wait until the cloud has confirmed every change of the items.")
    var uploaded = false

    @Flag(help: "Wait until the newest content of the items is here.")
    var downloaded = false

    @Flag(help: "Wait until nothing is pending and the change feed has been read to its end.")
    var idle = false

    @Option(help: .init("Give up after this many seconds, with exit code 1.", valueName: "s"))
    var timeout: Double?

    @Argument(help: "Files and folders; a folder with everything below it. None: the mount of the working directory.")
    var paths: [String] = []

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var quiet: QuietOptions

    /// In seconds: three years.
    static let longestTimeout = 1e8

    func validate() throws {
        if let timeout, !(0...Self.longestTimeout).contains(timeout) {
            throw ValidationError("--timeout must be a number of seconds from 0 to \(Int(Self.longestTimeout))")
        }
    }

    func run() async throws {
        let mount = try paths.isEmpty ? [state.mount(of: nil).place(of: "")] : []
        let located = try LocatedPaths(paths + mount, state, needsAll: true)
        let end = timeout.map { Output.now() + $0 }
        var isDone = true
        try await Progress.showing("waiting …", unless: quiet.isQuiet) { progress in
            try await located.forEachMount { daemon, items in
                let watch = quiet.isQuiet ? nil : DownloadWatch("waiting", daemon, progress, uploads: true)
                defer { watch?.end() }
                let paths = ShownPaths(mountPoint: items.first?.location.mountPoint ?? [])
                let request = WaitRequest(
                    paths: items.map(\.relativePath), uploaded: uploaded, downloaded: downloaded,
                    idle: idle || !(uploaded || downloaded), timeout: end.map { max(0, $0 - Output.now()) })
                let report = try await daemon.wait(request)
                progress.clear()
                if !report.done { isDone = false }
                if output.asJSON { try Output.json(report) }
                report.tell("not yet", paths)
            }
        }
        if !isDone { throw ExitCode(ExitStatus.failed) }
    }
}

extension WaitReport {
    /// Prints what is missing, and why; nothing if the wait is done.
    func tell(_ what: String, _ paths: ShownPaths) {
        guard !done else { return }
        let reason = reason.map { ": \($0)" } ?? ""
        Output.message("\(what)\(reason)")
        Output.messages(pending.map { StatusText.of($0, paths) })
    }
}
