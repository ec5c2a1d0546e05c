import Logging
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Answers the requests at the local socket: `ubiquity status`, `download`, `wait` and the others.
final class MountController: Sendable {
    let parts: MountParts
    let events = EventHub()
    let queries = QueryHub()
    let end = MountEnd()
    /// Callers that have asked to unmount.
    let stops = ControlActivity()
    let merges: MergeRunner
    private let conflicts: ConflictWatch
    let indexGuard: HeldIndexGuard
    /// Claims that clients have named, until they end.
    let namedClaims = Lock<[NamedClaim: ClaimID]>([:])
    /// Claims still being looked up, and whether each was released by then.
    let comingClaims = Lock<[NamedClaim: Bool]>([:])
    /// After an unmount that found the mount unused, its session ends within moments.
    private static let endLimit = Duration.seconds(1)

    init(_ parts: MountParts) {
        self.parts = parts
        merges = MergeRunner(parts)
        conflicts = ConflictWatch(parts)
        indexGuard = HeldIndexGuard(parts)
    }

    var engine: SyncEngine { parts.engine }
    var pool: BlockingPool { parts.pool }

    func event(_ kind: ControlEvent.Kind) -> ControlEvent { ControlEvent(kind, time: seconds(parts.timekeeper.now())) }

    func seconds(_ time: Timestamp) -> Double { Double(time.nanoseconds) / 1e9 }

    func setOffline(_ offline: Bool) async throws {
        engine.setPaused(offline)
        guard !offline else { return }
        parts.embeddedCloud?.forgetFailures()
        engine.retryNow()
    }

    func setLog(_ wanted: LogRequest) throws -> LogReport {
        if let name = wanted.level {
            guard let level = Logger.Level(rawValue: name) else {
                throw UbiquityError(
                    .invalid, "\"\(name.prefix(80))\" is not a log level",
                    remedy: "one of \(Logger.Level.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            // The log itself records why it becomes less detailed from here on.
            parts.log.level = min(level, parts.log.level)
            parts.logger.notice("the log's level was set", metadata: ["level": "\(level)"])
            parts.log.level = level
        }
        return LogReport(level: parts.log.level.rawValue, file: parts.log.path)
    }

    func decideDeletions(_ wanted: DeletionsRequest) async throws -> DeletionsReport {
        try await pool.run { [engine] in
            switch wanted.decision {
            case .confirm: DeletionsReport(items: try engine.confirmDeletions())
            case .undo: DeletionsReport(items: try engine.undoDeletions())
            }
        }
    }

    // MARK: The end

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
        stops.begin()
        defer { stops.end() }
        indexGuard.start(limit: HeldIndexGuard.unmountLimit)
        let mountPoint = try MountPoint.current(source: parts.folder.path, first: parts.settings.mountPoint)
            ?? parts.settings.mountPoint
        let report = try await pool.run { [self] in
            let summary = try engine.summary()
            return StopReport(
                notUploaded: TransferTotal(items: summary.pendingUploads, bytes: summary.pendingUploadBytes),
                pending: try pendingUploads(), held: heldDeletions)
        }
        try await unmount(mountPoint, lazy: wanted.lazy)
        if !wanted.lazy { end.force(after: Self.endLimit) }
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

    private static let unmountAttempts = 20
    private static let unmountPause = Duration.milliseconds(50)
}
