internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The free quota of an account.
struct AccountRoom {
    private(set) var bytes: Int64

    /// - Returns: nil if the account has no quota, or if the usage is unknown.
    init?(_ status: ConnectionStatus) {
        guard let used = status.usedBytes, let quota = status.quotaBytes else { return nil }
        bytes = quota - used
    }

    /// Whether `growth` more bytes fit. If so, they are subtracted.
    mutating func take(_ growth: Int64) -> Bool {
        guard growth > 0 else { return true }
        guard growth <= bytes else { return false }
        bytes -= growth
        return true
    }
}

// A full account: changes that fit are uploaded. The others cost hardly any work until space is freed.
extension SyncEngine {
    static let accountIsFull = UbiquityError(
        .quotaExceeded, "the account is full", remedy: "delete files and empty the trash, or ask for a larger quota")

    /// Asks for the usage anew before it reports a full account, since another device may have freed space.
    /// - Throws: `.quotaExceeded` if the cloud would refuse the complete content.
    func requireQuota(for row: ItemRow) async throws {
        // The cloud has counted a new file's size at its announcement.
        guard !row.dirty.contains(.created) else { return }
        let growth = try await pool.run { try self.growth(of: row) }
        guard isBeyondQuota(growth) else { return }
        await refreshUsage()
        guard isBeyondQuota(growth) else { return }
        throw UbiquityError(
            .quotaExceeded, "the account is full: its quota is \(ByteSize.text(connection.status.quotaBytes ?? 0))",
            remedy: "delete files and empty the trash, or ask for a larger quota")
    }

    /// By how many bytes the content changes the usage of the account.
    private func growth(of row: ItemRow) throws -> Int64 {
        // This runs for each waiting file at each change, so a new item is not looked up.
        if row.dirty.contains(.created) { return row.size }
        let known = try index.read { try $0.remote(id: row.id) }
        return row.size - (known?.content?.size ?? 0)
    }

    private func isBeyondQuota(_ growth: Int64) -> Bool {
        guard var room = AccountRoom(connection.status) else { return false }
        return !room.take(growth)
    }

    /// The free quota, if the account was full at the last commit, else nil.
    func roomInFullAccount() -> AccountRoom? {
        push.withLock { $0.isAccountFull } ? AccountRoom(connection.status) : nil
    }

    /// Asks for the usage of a full account, unless that was asked lately.
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

    /// Whether the row has a content that does not fit. It is then neither read nor sent, and the next query of the
    /// usage decides whether that has changed.
    func isWithoutRoom(_ row: ItemRow, _ room: inout AccountRoom?) throws -> Bool {
        guard room != nil, row.kind == .file, !row.isDeleted, row.dirty.contains(.content),
            row.dirty.contains(.created) || row.wantsInlineContent,
            room?.take(try growth(of: row)) == false
        else { return false }
        problems.show(Self.accountIsFull, .upload, of: row.key)
        return true
    }

    /// Clears the state "account full" once no change waits for space.
    func noteRoomForAll() {
        guard push.withLock({ $0.isAccountFull }),
            !problems.all.contains(where: { $0.direction == .upload && $0.problem.error.code == .quotaExceeded })
        else { return }
        push.withLock { $0.isAccountFull = false }
    }

    /// Divides a refused group into the changes that fit and those that do not.
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
                // Links to a refused item wait with it.
                if let id = change.row.linkedID, missing.contains(id) { continue }
                if case .put(let fields) = change.change.action, let content = fields.content {
                    let before = try index.read { try $0.remote(id: change.row.id) }?.content?.size ?? 0
                    guard room.take(content.size - before) else {
                        refused.append(change)
                        if change.row.dirty.contains(.created) { missing.insert(change.row.id) }
                        // Its move is sent ahead: another item may wait for the old place.
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
    /// The change without the content, for an item known to the cloud. Nil if nothing else changed.
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
