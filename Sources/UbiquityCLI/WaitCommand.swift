import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

struct WaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Returns when items are uploaded, downloaded, or nothing is pending any more.",
        discussion: "Several conditions must all hold. Without one it waits as with --idle.")

    @Flag(help: "Every change of the items is confirmed by the cloud.")
    var uploaded = false

    @Flag(help: "The newest content of the items is here.")
    var downloaded = false

    @Flag(help: "Nothing is pending in the mount, and all that the cloud has to tell has been read.")
    var idle = false

    @Option(help: .init("Give up after that many seconds (exit code 1).", valueName: "s"))
    var timeout: Double?

    @Argument(help: "Files and folders; folders with all that is in them. None: the mount of the working directory.")
    var paths: [String] = []

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var quiet: QuietOptions

    /// Seconds: three years.
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
    /// Says what is missing, and why; nothing if all is done.
    func tell(_ what: String, _ paths: ShownPaths) {
        guard !done else { return }
        let reason = reason.map { ": \($0)" } ?? ""
        Output.message("\(what)\(reason)")
        Output.messages(pending.map { StatusText.of($0, paths) })
    }
}
