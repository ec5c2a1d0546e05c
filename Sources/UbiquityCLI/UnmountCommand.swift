import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

struct UnmountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount",
        abstract: "End a mount. Changes that are not uploaded are kept, and uploaded by the next mount.")

    @Flag(help: "Wait until the cloud has every change.")
    var waitUploaded = false

    @Flag(help: "Detach the mount even while programs use it.")
    var lazy = false

    @OptionGroup var quiet: QuietOptions

    @Argument(help: "The mount point.")
    var mountPoint: String

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if waitUploaded && lazy { throw ValidationError("--wait-uploaded and --lazy exclude each other") }
    }

    func run() async throws {
        let inside = try MountFinder.find(mountPoint) == nil ? ContainersMount.mountPoints(in: mountPoint) : []
        guard !inside.isEmpty else { return try await end(mountPoint) }
        // The folder of `mount --containers all`.
        for path in inside { try await end(path) }
        ContainersMount.clean(mountPoint, inside)
    }

    private func end(_ mountPoint: String) async throws {
        let location = try state.locate(mountPoint)
        guard location.relativePath.isEmpty else {
            let real = String(decoding: location.mountPoint, as: UTF8.self)
            throw UbiquityError(.invalid, "not a mount point", at: mountPoint, remedy: "the mount point is \(real)")
        }
        let folder = String(decoding: location.stateFolder, as: UTF8.self)
        if let refusal = MountFinder.refusal(stateFolder: location.stateFolder) {
            throw MountUnreachable(mountPoint, refusal)
        }
        guard MountFinder.isAlive(stateFolder: location.stateFolder) else {
            return try clear(location, mountPoint, "the daemon had died")
        }
        ProcessHost.leave(location.mountPoint)
        let report: StopReport
        do {
            report = try await stop(folder, ShownPaths(mountPoint: location.mountPoint))
        } catch is MountUnreachable where lazy {
            return try clear(location, mountPoint, "the daemon does not answer, and has lost its mount")
        }
        // After a lazy unmount the daemon serves programs until they close their files.
        if !lazy {
            try await Progress.showing("unmounting …", unless: quiet.isQuiet) { _ in try await waitForEnd(of: folder) }
        }
        try show(report)
    }

    private func stop(_ folder: String, _ paths: ShownPaths) async throws -> StopReport {
        try await Progress.showing("unmounting …", unless: quiet.isQuiet) { progress in
            try await Daemon.connected(to: folder) { daemon in
                if waitUploaded {
                    progress.update("waiting until everything is uploaded …")
                    let watch = quiet.isQuiet
                        ? nil : DownloadWatch("uploading", daemon, progress, downloads: false, uploads: true)
                    defer { watch?.end() }
                    let report = try await daemon.wait(WaitRequest(paths: [""], uploaded: true))
                    guard report.done else {
                        progress.clear()
                        report.tell("not unmounted, because changes are not uploaded", paths)
                        throw ExitCode(ExitStatus.failed)
                    }
                    progress.update("unmounting …")
                }
                return try await daemon.stop(StopRequest(lazy: lazy))
            }
        }
    }

    /// No daemon answers: only remove the mount.
    private func clear(_ location: PathResolver.Location, _ mountPoint: String, _ why: String) throws {
        try describing("unmount", at: mountPoint) { () throws(Errno) in
            try Unmounting.unmount(location.mountPoint, lazy: true)
        }
        Output.message("\(why); changes not uploaded are kept and uploaded by the next mount")
        // Whether everything was uploaded is unknown.
        if waitUploaded { throw ExitCode(ExitStatus.failed) }
    }

    private func show(_ report: StopReport) throws {
        if output.asJSON { try Output.json(report) }
        guard report.notUploaded.items > 0 else { return }
        let next = report.held ?? "the next mount uploads them"
        Output.message("not uploaded yet: \(Output.total(report.notUploaded)); kept here: \(next)")
        Output.messages(report.pending.map { "  \(Output.shown($0.path))" })
    }

    /// Waits for the daemon's end. The daemon answers when the mount is gone, and ends by releasing its state folder.
    private func waitForEnd(of stateFolder: String) async throws {
        let end = ContinuousClock.now + .seconds(Self.endLimit)
        while try ProcessLock.holder(of: Path.join(stateFolder, "lock")) != nil {
            guard ContinuousClock.now < end else {
                throw UbiquityError(.timedOut, "unmounted, but the daemon is still running", at: stateFolder)
            }
            try await Sleepers.shared.sleep(for: .milliseconds(5))
        }
    }

    /// In seconds: how long a daemon may take to close its index after the mount is gone.
    static let endLimit = 30
}
