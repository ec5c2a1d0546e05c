import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// `wait`: answers when the wanted state is reached, or its time is over.
struct WaitCommand: MountCommand {
    /// After close(2) the kernel's release follows a moment later, and only then are the writes recorded. So a file
    /// open for writing counts as pending, but no longer than this. Some programs keep files open forever, and their
    /// writes are recorded every few seconds.
    private static let releaseGrace = Duration.seconds(1)
    /// After the wait, programs must see the result. The kernel receives invalidations within a moment, or when a
    /// program releases the folder, which may be never. This limits that wait; below is its polling interval.
    private static let newsGrace = Duration.seconds(1)
    private static let newsInterval = Duration.milliseconds(2)
    /// A replay takes some 100 µs; up to 16,384 wait, and a hanging one adds 3 s.
    private static let replayGrace = Duration.seconds(10)
    /// In seconds: a wait without a limit is divided into waits of this length.
    private static let endless = 1e9
    /// Time the cloud has to answer in any case: with a timeout of 0 it is asked once.
    private static let oneQuestion = Duration.seconds(1)

    let parts: MountParts

    private var items: PendingItems { PendingItems(parts: parts) }

    /// - Returns: the function that waits. Throws at once if an item does not exist.
    func wait(for wanted: WaitRequest) async throws -> @Sendable () async throws -> WaitReport {
        let tops = try await pool.run { [self] in try wanted.paths.flatMap { try parts.tree.keys(at: $0) } }
        return { [self] in
            do {
                return try await wait(wanted, tops)
            } catch let error as UbiquityError {
                return WaitReport(done: false, failure: ControlFailure(error))
            }
        }
    }

    private func wait(_ wanted: WaitRequest, _ tops: [ItemKey]) async throws -> WaitReport {
        // An ignore file may just have released items; and writes to files that stay open must be recorded.
        if wanted.uploaded || wanted.idle { try await settle() }
        let start = parts.timekeeper.uptime()
        let limit = Duration.seconds(min(max(wanted.timeout ?? Self.endless, 0), Self.endless))
        let check = WaitCheck(parts: parts, wanted: wanted, tops: tops)
        if wanted.idle, try await !FeedEnd(parts: parts).reach(within: max(limit, Self.oneQuestion)) {
            return try await unfinished(check)
        }
        let left = limit - (parts.timekeeper.uptime() - start)
        let isToBeSettled = Lock(true)
        let isDone = try await engine.wait(atMost: max(.zero, left)) { [self] in
            let graceIsOver = parts.timekeeper.uptime() - start > Self.releaseGrace
            // A file that has come to rest since the first look is uploaded although it is open.
            if graceIsOver, isToBeSettled.withLock({ isFirst in defer { isFirst = false }; return isFirst }) {
                try await settle()
            }
            // A decision by the user cannot come during the wait, so end it.
            return try await pool.run {
                if limit > .zero { try check.endRests() }
                return try check.holds(graceIsOver: graceIsOver) || check.isHeldBack() || check.lacksRoom()
            }
        }
        guard isDone, try await !pool.run({ try check.isHeldBack() || check.lacksRoom() }) else {
            return try await unfinished(check)
        }
        try await waitForKernel()
        return WaitReport(done: true)
    }

    private func settle() async throws { try await pool.run { [parts] in parts.fileSystem.flush() } }

    private func waitForKernel() async throws {
        let mark = try await pool.run { [parts] in parts.fileSystem.replays.mark }
        try await wait(atMost: Self.replayGrace) { $0.replays.isOver(mark) }
        try await wait(atMost: Self.newsGrace) { !$0.hasNewsForKernel }
    }

    private func wait(atMost limit: Duration, until holds: (ContainerFileSystem) -> Bool) async throws {
        let end = parts.timekeeper.uptime() + limit
        while !holds(parts.fileSystem), parts.timekeeper.uptime() < end {
            try await parts.timekeeper.sleep(for: Self.newsInterval)
        }
    }

    private func unfinished(_ check: WaitCheck) async throws -> WaitReport {
        let pending = try await pool.run { [self] in try self.pending(check) }
        return WaitReport(
            done: false, pending: Array(pending.prefix(MountStatus.maximumPendingItems)),
            reason: try await reason(check))
    }

    /// The items that the wait is for and that are not done yet.
    private func pending(_ check: WaitCheck) throws -> [PendingItem] {
        let wanted = check.wanted
        var pending = [PendingItem]()
        if wanted.uploaded || wanted.idle { pending += try items.uploads(of: check.concerned) }
        if wanted.downloaded {
            let missing = try check.missingContents(limit: MountStatus.maximumPendingItems)
            pending += try missing.map { try items.download($0.key, at: $0.path) }
        } else if wanted.idle {
            pending += try items.downloads()
        }
        return pending
    }

    private func reason(_ check: WaitCheck) async throws -> String? {
        if let held = items.heldDeletions, try await pool.run({ try check.isHeldBack() }) { return held }
        if try await pool.run({ try check.lacksRoom() }) { return Self.lacksRoom }
        let connection = engine.connection.status
        guard connection.phase == .online else { return "the cloud is unreachable: \(connection.reason)" }
        return try await pool.run { [self] in try waitingForPrograms() ?? waitingForNames() ?? unsettled() }
    }

    private static let lacksRoom = "the disk has no space for the contents listed below; free some space "
        + "or mount with a smaller --disk-floor"

    /// Names a cloud record that cannot be placed, if nothing else explains the wait.
    private func unsettled() throws -> String? {
        let name = try parts.index.read { reader in
            for state in [SettlingState.awaitingParent, .waiting, .awaitingPackage] {
                guard let id = try reader.records(state, limit: 1).first else { continue }
                return try reader.remote(id: id)?.name.description
            }
            return nil
        }
        return name.map { "the cloud's record of \($0) cannot be placed yet; 'ubiquity doctor' finds the reason" }
    }

    /// Names a remote change that waits until a program closes the file.
    private func waitingForPrograms() throws -> String? {
        try items.heldUpByPrograms().first.map { item in
            "a change from another device to \(item.path) \(PendingItems.waitsForWriter)"
        }
    }

    /// Names a remote item whose name is taken by an excluded item.
    private func waitingForNames() throws -> String? {
        let holder = try parts.index.read { reader -> ItemKey? in
            for id in try reader.records(.waiting, limit: MountStatus.maximumPendingItems) {
                guard let remote = try reader.remote(id: id), let folder = try reader.row(id: remote.parent),
                    let other = try reader.child(of: folder.key, named: remote.name), other.isExcluded
                else { continue }
                return other.key
            }
            return nil
        }
        guard let path = try holder.flatMap({ try parts.tree.path(of: $0) }) else { return nil }
        return "an item from another device waits: an item that is not synced has its name, \(path); "
            + "it is moved aside within two minutes"
    }
}
