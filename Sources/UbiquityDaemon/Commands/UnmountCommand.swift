import UbiquityControl
import UbiquityCore
import UbiquityFUSE
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// `unmount`: ends the mount when no program uses it, or at once if it is lazy.
struct UnmountCommand: MountCommand {
    /// After an unmount that found the mount unused, its session ends within moments.
    private static let endLimit = Duration.seconds(1)
    private static let unmountAttempts = 20
    private static let unmountPause = Duration.milliseconds(50)

    let parts: MountParts
    let ending: MountEnding
    let indexGuard: HeldIndexGuard

    init(parts: MountParts, ending: MountEnding) {
        self.parts = parts
        self.ending = ending
        indexGuard = HeldIndexGuard(parts)
    }

    /// Largest number of programs named when an unmount is refused.
    private static let shownUsers = 10

    private static func inUse(by users: [MountUsers.User]) -> String {
        guard !users.isEmpty else { return "another file system is mounted in it, or programs of other users use it" }
        let shown = users.map { user in
            let what = switch user.use {
            case .open(let file): "has \(file) open"
            case .within: "is in it"
            case .waiting: "waits for an item in it"
            }
            return "\(user.name) (process \(user.process)) \(what)"
        }
        return "in use: " + shown.joined(separator: ", ")
    }

    /// Unmounts; the daemon ends when the mount is gone. Throws `.busy` if programs use it and `lazy` is not set.
    func stop(_ wanted: StopRequest) async throws -> StopReport {
        ending.activity.begin()
        defer { ending.activity.end() }
        indexGuard.start(limit: HeldIndexGuard.unmountLimit)
        let mountPoint = try MountPoint.current(source: parts.home.path, first: parts.settings.mountPoint)
            ?? parts.settings.mountPoint
        let report = try await pool.run { [self] in
            let pending = PendingItems(parts: parts)
            let summary = try engine.summary()
            return StopReport(
                notUploaded: TransferTotal(items: summary.pendingUploads, bytes: summary.pendingUploadBytes),
                pending: try pending.uploads(), held: pending.heldDeletions)
        }
        try await unmount(mountPoint, lazy: wanted.lazy)
        if !wanted.lazy { ending.end.force(after: Self.endLimit) }
        return report
    }

    /// Unmounts. Tries again while the mount is busy without visible users: a program may use it for a moment and be
    /// gone by the time it is looked for.
    private func unmount(_ mountPoint: String, lazy: Bool) async throws {
        var attempt = 1
        while let users = try await pool.run({ try self.unmountOnce(mountPoint, lazy: lazy) }) {
            guard users.isEmpty, attempt < Self.unmountAttempts else {
                throw UbiquityError(
                    .busy, Self.inUse(by: users), at: mountPoint, remedy: "end them or leave the folder, or use --lazy")
            }
            attempt += 1
            try await parts.timekeeper.sleep(for: Self.unmountPause)
        }
    }

    /// - Returns: the visible users of the mount; nil if it is unmounted.
    private func unmountOnce(_ mountPoint: String, lazy: Bool) throws -> [MountUsers.User]? {
        do throws(Errno) {
            try parts.fileSystem.replays.paused { () throws(Errno) in
                try Unmounting.unmount(Array(mountPoint.utf8), lazy: lazy)
            }
            FaultPoints.reach("mount.unmounted")
            return nil
        } catch {
            guard error == .EBUSY else { throw UbiquityError(error, doing: "unmount", at: mountPoint) }
            let users = MountUsers.users(of: mountPoint, limit: Self.shownUsers)
            guard users.isEmpty else { return users }
            return MountUsers.waiting(parts.claimedFileSystem.waitingCallers.keys, limit: Self.shownUsers)
        }
    }
}
