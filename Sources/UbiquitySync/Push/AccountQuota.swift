internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The free quota of an account.
struct FreeQuota {
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

/// The free quota of a full account. Changes that fit are uploaded. The others cost hardly any work until space is
/// freed.
///
/// It holds whether the account is full, and how far the changes were examined that do not fit. The gatherer, the
/// uploader of contents and the uploader of changes call it. It knows the context only.
final class AccountQuota: SyncRoom {
    let context: SyncContext

    private struct State {
        /// Whether the cloud refused a change because the account is full.
        var isFull = false
        /// Changes that wait for space in the account, as far as they were examined.
        var passedOver: PassedOver?
        /// When the usage of the full account was last asked for.
        var usageAskedAt: Timestamp?
    }

    private struct PassedOver {
        /// The last position in the order of changes that was examined.
        var order: Int64
        /// When they are examined again.
        var until: Timestamp
        /// Bytes that the account had free then.
        var free: Int64
    }

    private let state = Lock(State())

    init(_ context: SyncContext) { self.context = context }

    static let accountIsFull = UbiquityError(
        .quotaExceeded, "the account is full", remedy: "delete files and empty the trash, or ask for a larger quota")

    /// Asks for the usage anew before it reports a full account, since another device may have freed space.
    /// - Throws: `.quotaExceeded` if the cloud would refuse the complete content.
    func require(for row: ItemRow) async throws {
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
        guard var room = FreeQuota(connection.status) else { return false }
        return !room.take(growth)
    }

    /// The free quota, if the account was full at the last commit, else nil.
    var free: FreeQuota? {
        state.withLock { $0.isFull } ? FreeQuota(connection.status) : nil
    }

    /// Asks for the usage of a full account, unless that was asked lately.
    func refresh() async {
        let now = timekeeper.now()
        let isDue = state.withLock { state in
            guard state.isFull else { return false }
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
    func exceeds(_ row: ItemRow, _ room: inout FreeQuota?) throws -> Bool {
        guard room != nil, row.kind == .file, !row.isDeleted, row.dirty.contains(.content),
            row.dirty.contains(.created) || row.wantsInlineContent,
            room?.take(try growth(of: row)) == false
        else { return false }
        problems.show(Self.accountIsFull, .upload, of: row.key)
        return true
    }

    /// Clears the state "account full" once no change waits for space.
    func endIfNoneWaits() {
        guard state.withLock({ $0.isFull }),
            !problems.all.contains(where: { $0.direction == .upload && $0.problem.error.code == .quotaExceeded })
        else { return }
        state.withLock { $0.isFull = false }
    }

    /// The position in the order of changes to start from. In a full account, rows before it were examined lately and
    /// did not fit, and no space was freed since.
    func firstToExamine() -> Int64 {
        guard let free else { return 0 }
        let now = timekeeper.now()
        return state.withLock { state in
            guard let passed = state.passedOver, passed.until > now, passed.free >= free.bytes,
                // A time farther away was recorded before the clock was set back.
                passed.until <= now.advanced(bySeconds: SyncLimits.pollInterval / .seconds(1))
            else {
                state.passedOver = nil
                return 0
            }
            return passed.order
        }
    }

    func recordExamined(upTo order: Int64) {
        guard let free else { return }
        let until = timekeeper.now().advanced(bySeconds: SyncLimits.pollInterval / .seconds(1))
        state.withLock { state in
            let first = state.passedOver?.until
            state.passedOver = PassedOver(order: order, until: first ?? until, free: free.bytes)
        }
    }

    /// Divides a refused group into the changes that fit and those that do not.
    func divide(_ group: [PlannedChange]) async throws -> (fitting: [PlannedChange], refused: [PlannedChange]) {
        state.withLock { state in
            state.isFull = true
            state.usageAskedAt = timekeeper.now()
        }
        await refreshUsage()
        guard let known = FreeQuota(connection.status) else { return (group, []) }
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
