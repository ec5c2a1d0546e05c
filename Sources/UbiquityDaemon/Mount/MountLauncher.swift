import UbiquityControl
import UbiquityCore
import UbiquityFUSE
import UbiquitySystem

/// Starts the process that serves a mount, and waits until the mount is usable.
package enum MountLauncher {
    /// A daemon is usable in well under a second; one that is not after this long never will be. Checking a large index
    /// after a power loss may take a while.
    private static let limit = Duration.seconds(60)
    private static let tick: Int32 = 1000

    /// Starts the daemon. Blocks.
    /// - Parameter listed: called with the number of items listed so far.
    /// - Returns: notices for the user.
    /// - Throws: `UbiquityError` with the daemon's reason; nothing has been changed then.
    package static func launch(
        _ settings: MountSettings, listed: (Int64) -> Void = { _ in }
    ) throws(UbiquityError) -> [String] {
        var settings = settings
        settings.mountPoint = try preflight(settings)
        let folder = try containerFolder(settings)
        try folder.make()
        let (process, pipe) = try start(settings, log: folder.log)
        return try awaitReport(pipe: pipe, process: process, log: folder.log, listed: listed).notices ?? []
    }

    /// - Returns: the reading end of the daemon's pipe. Only the daemon has the writing end when this returns, so that
    ///   its death ends the wait.
    private static func start(
        _ settings: MountSettings, log: String
    ) throws(UbiquityError) -> (process: Int32, pipe: FileDescriptor) {
        let log = try LogFile.open(log)
        let arguments = ["ubiquity"] + settings.serverArguments
        return try describing("start the daemon") { () throws(Errno) in
            let pipe = try LocalPipe()
            let process = try DetachedProcess.start(
                ProcessHost.executable, arguments, log: log, report: pipe.writing)
            return (process, pipe.reading)
        }
    }

    /// Checks everything that can be checked before anything is created.
    /// - Returns: the mount point without symlinks.
    static func preflight(_ settings: MountSettings) throws(UbiquityError) -> String {
        _ = try MountOptions.accepted(settings.options)
        let folder = try containerFolder(settings)
        try folder.requireUnused(to: "mount")
        // The dead mount stays until the new one replaces it: meanwhile programs get errors, and nothing is written to
        // the folder beneath.
        if try MountPoint.isLeft(at: settings.mountPoint, source: folder.path) {
            return try MountPoint.real(settings.mountPoint)
        }
        let mountPoint = try MountPoint.check(settings.mountPoint)
        for own in [settings.deviceFolder, try CloudFolder.path(option: nil)]
        where own == mountPoint || own.hasPrefix(mountPoint + "/") {
            throw UbiquityError(
                .invalid, "cannot mount: the mount would hide its own data", at: own,
                remedy: "name a folder outside the mount point")
        }
        return mountPoint
    }

    static func containerFolder(_ settings: MountSettings) throws(UbiquityError) -> ContainerFolder {
        let account = try DeviceAccount.load(deviceFolder: settings.deviceFolder)
        return ContainerFolder(
            account: try account.folder(ofDevice: settings.deviceFolder), container: settings.container)
    }

    private static func awaitReport(
        pipe: FileDescriptor, process: Int32, log: String, listed: (Int64) -> Void
    ) throws(UbiquityError) -> MountReport {
        let end = ContinuousClock.now + limit
        var unread = [UInt8]()
        while true {
            guard let line = try nextLine(pipe, &unread, until: end) else {
                throw UbiquityError(
                    .timedOut, "the mount is not usable after \(limit)", at: log,
                    remedy: "see that log; process \(process) is still starting")
            }
            guard !line.isEmpty else {
                throw UbiquityError(
                    .io, "the daemon ended before the mount was usable", at: log, remedy: "see that log")
            }
            let report = try ControlCodec.decode(MountReport.self, from: line)
            if let failure = report.failure { throw failure.error }
            guard let count = report.listedItems else { return report }
            listed(count)
        }
    }

    /// The next message with its line feed; empty at the end of the pipe, nil when the time is over.
    private static func nextLine(
        _ pipe: FileDescriptor, _ unread: inout [UInt8], until end: ContinuousClock.Instant
    ) throws(UbiquityError) -> [UInt8]? {
        while true {
            if let feed = unread.firstIndex(of: UInt8(ascii: "\n")) {
                defer { unread.removeFirst(feed + 1) }
                return Array(unread[...feed])
            }
            guard ContinuousClock.now < end else { return nil }
            let part = try describing("wait for the daemon") { () throws(Errno) -> [UInt8]? in
                guard try pipe.waitUntilReadable(milliseconds: tick) else { return nil }
                return try pipe.readSome(count: MountReport.maximumLength)
            }
            guard let part else { continue }
            if part.isEmpty || unread.count > MountReport.maximumLength { return unread }
            unread += part
        }
    }
}
