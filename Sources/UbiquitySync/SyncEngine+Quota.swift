internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// What an account still takes.
struct AccountRoom {
    private(set) var bytes: Int64

    /// - Returns: nil if the account has no limit, or nobody knows.
    init?(_ status: ConnectionStatus) {
        guard let used = status.usedBytes, let quota = status.quotaBytes else { return nil }
        bytes = quota - used
    }

    /// Whether so many bytes more have room; if so they are taken.
    mutating func take(_ growth: Int64) -> Bool {
        guard growth > 0 else { return true }
        guard growth <= bytes else { return false }
        bytes -= growth
        return true
    }
}

// A full account: of many changes those that have room go up, and the others cost next to nothing till there is more.
extension SyncEngine {
    static let accountIsFull = UbiquityError(
        .quotaExceeded, "the account is full", remedy: "delete something, or ask for more")

    /// Throws `.quotaExceeded` if the cloud would refuse the content when all of it is there. What the account holds is
    /// asked anew before that is said: elsewhere something may have been deleted.
    func requireQuota(for row: ItemRow) async throws {
        // Of a new file the cloud has counted the size.
        guard !row.dirty.contains(.created) else { return }
        let growth = try await pool.run { try self.growth(of: row) }
        guard isBeyondQuota(growth) else { return }
        await refreshUsage()
        guard isBeyondQuota(growth) else { return }
        throw UbiquityError(
            .quotaExceeded, "the account is full: it may use \(connection.status.quotaBytes ?? 0) bytes",
            remedy: "delete something, or ask for more")
    }

    /// By how many bytes the account will hold more, or less, when the row's content is there.
    private func growth(of row: ItemRow) throws -> Int64 {
        // Asked of each file that waits, at each change: what the cloud does not have is not looked up.
        if row.dirty.contains(.created) { return row.size }
        let known = try index.read { try $0.remote(id: row.id) }
        return row.size - (known?.content?.size ?? 0)
    }

    private func isBeyondQuota(_ growth: Int64) -> Bool {
        guard var room = AccountRoom(connection.status) else { return false }
        return !room.take(growth)
    }

    /// What there is room for, if the account was full when last something was sent; else nil.
    func roomInFullAccount() -> AccountRoom? {
        push.withLock { $0.isAccountFull } ? AccountRoom(connection.status) : nil
    }

    /// Asks what a full account holds, if that was not asked lately.
    func refreshUsageOfFullAccount() async {
        let now = timekeeper.now()
        let isDue = push.withLock { state in
            guard state.isAccountFull else { return false }
            if let askedAt = state.usageAskedAt, askedAt <= now,
                askedAt.advanced(bySeconds: SyncLimits.usageRest / .seconds(1)) > now
            {
                return false
            }
            state.usageAskedAt = now
            return true
        }
        if isDue { await refreshUsage() }
    }

    /// Whether the row brings a content for which there is no room: then nothing of it is read or sent, and the next
    /// look at what the account holds tells whether that is over.
    func isWithoutRoom(_ row: ItemRow, _ room: inout AccountRoom?) throws -> Bool {
        guard room != nil, row.kind == .file, !row.isDeleted, row.dirty.contains(.content),
            row.dirty.contains(.created) || row.wantsInlineContent,
            room?.take(try growth(of: row)) == false
        else { return false }
        problems.show(Self.accountIsFull, .upload, of: row.key)
        return true
    }

    /// Nothing waits for room any more.
    func noteRoomForAll() {
        guard push.withLock({ $0.isAccountFull }),
            !problems.all.contains(where: { $0.direction == .upload && $0.problem.error.code == .quotaExceeded })
        else { return }
        push.withLock { $0.isAccountFull = false }
    }

    /// Of a group that was refused, what has room and what has not.
    func partByRoom(_ group: [PlannedChange]) async throws -> (fitting: [PlannedChange], refused: [PlannedChange]) {
        push.withLock { state in
            state.isAccountFull = true
            state.usageAskedAt = timekeeper.now()
        }
        await refreshUsage()
        guard let known = AccountRoom(connection.status) else { return (group, []) }
        return try await pool.run { [self] in
            var room = known, fitting = [PlannedChange](), refused = [PlannedChange](), missing = Set<ItemID>()
            for change in group {
                // A name of what is refused waits with it.
                if let id = change.row.linkedID, missing.contains(id) { continue }
                if case .put(let fields) = change.change.action, let content = fields.content {
                    let before = try index.read { try $0.remote(id: change.row.id) }?.content?.size ?? 0
                    guard room.take(content.size - before) else {
                        refused.append(change)
                        if change.row.dirty.contains(.created) { missing.insert(change.row.id) }
                        // Its place goes ahead: something else may wait for that.
                        if let rest = change.withoutContent { fitting.append(rest) }
                        continue
                    }
                }
                fitting.append(change)
            }
            return (fitting, refused)
        }
    }
}

extension PlannedChange {
    /// What else is changed of an item that the cloud knows; nil if nothing is.
    fileprivate var withoutContent: PlannedChange? {
        guard row.hasMoreThanContent, case .put(var fields) = change.action else { return nil }
        // The times belong to the content.
        fields.content = nil
        fields.createdAt = nil
        fields.modifiedAt = nil
        fields.earlier = row.earlierTimes(of: fields)
        var rest = self
        rest.change.action = .put(fields)
        return rest
    }
}
