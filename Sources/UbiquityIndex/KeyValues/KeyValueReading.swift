internal import UbiquityCore

/// Applies pages of the cloud's feed to the rows of this device.
///
/// The first reading of an account is its initial sync. A complete reading follows whenever the feed does not reach
/// back to the device's position: it marks the rows that it finds, and then drops the others.
struct KeyValueReading {
    let table: KeyValueTable

    func apply(_ page: KeyValuePage) throws -> (news: [KeyValueNews], hasMore: Bool) {
        var state = try table.state()
        if let known = state.point.incarnation, known != page.incarnation || page.revision < state.point.revision {
            try startOver(&state)
            state.point.incarnation = page.incarnation
            try table.put(state)
            return ([], true)
        }
        state.point.incarnation = page.incarnation
        if !state.isReading, page.forgotten > state.point.revision {
            beginReading(&state)
            try table.put(state)
            return ([], true)
        }
        if state.isReading, state.point.revision == .zero { state.forgotten = page.forgotten }
        let reason: KeyValueReason = state.hasSynced ? .serverChange : .initialSync
        var changes = [(store: KeyValueStoreID, reason: KeyValueReason, key: KeyValueKey)]()
        for record in page.records {
            if try apply(record, &state) { changes.append((record.store, reason, record.key)) }
        }
        state.point.revision = page.revision
        guard state.isReading, !page.hasMore else {
            try table.put(state)
            return (KeyValueNews.grouped(changes), page.hasMore)
        }
        // Removals forgotten since the reading began may be of keys that it has found.
        guard state.forgotten == page.forgotten else {
            beginReading(&state)
            try table.put(state)
            return (KeyValueNews.grouped(changes), true)
        }
        for row in try table.rows("pending = 0 AND epoch < ?", [.int(state.epoch)]) {
            if row.value != nil { changes.append((row.store, reason, row.key)) }
            try table.remove(row)
        }
        state.isReading = false
        state.hasSynced = true
        try table.put(state)
        try dropOldRemovals()
        return (KeyValueNews.grouped(changes), false)
    }

    private func beginReading(_ state: inout KeyValueAccountRow) {
        state.isReading = true
        state.epoch += 1
        state.point.revision = .zero
    }

    /// The cloud's data was replaced: sends all values again. Each keeps its time, so a later one at the cloud wins.
    private func startOver(_ state: inout KeyValueAccountRow) throws {
        beginReading(&state)
        for var row in try table.rows() {
            row.revision = .zero
            if !row.isPending {
                row.isPending = true
                row.isFinal = true
                row.seen = state.clock
            }
            try table.put(row)
        }
    }

    /// - Returns: whether the key shows another value now.
    private func apply(_ record: KeyValueRecord, _ state: inout KeyValueAccountRow) throws -> Bool {
        state.clock = max(state.clock, record.register.current.stamp.time)
        guard var row = try table.row(record.store, record.key) else {
            try table.put(KeyValueRow(record, epoch: state.epoch))
            return record.register.current.value != nil
        }
        let isAnswered = row.register.current.mark == record.register.current.mark
        // The account's value replaces a set from before the first download. Otherwise a program's defaults on a new
        // device would replace the values of all others.
        let isOverwritten = !state.hasSynced && !row.isFinal && record.register.current.value != nil
        if row.isPending, !isAnswered, !isOverwritten {
            row.epoch = state.epoch
            // The answer to a push may be older than this record. Then the feed is read again from here.
            row.revision = max(row.revision, record.revision)
            try table.put(row)
            return false
        }
        // An answer to a push may have brought a later record.
        guard row.isPending || record.revision >= row.revision else {
            row.epoch = state.epoch
            try table.put(row)
            return false
        }
        var next = KeyValueRow(record, epoch: state.epoch)
        if isOverwritten, row.isPending, !isAnswered {
            // The overwritten set stays readable.
            next.register = KeyValueRegister(record.register.current, previous: row.register.current)
        }
        try table.put(next)
        return row.value != record.register.current.value
    }

    /// Keeps as many removed keys as the cloud does.
    private func dropOldRemovals() throws {
        try table.db.run(
            """
            DELETE FROM entries WHERE account = ?1 AND pending = 0 AND size IS NULL AND number NOT IN (
                SELECT number FROM entries WHERE account = ?1 AND pending = 0 AND size IS NULL
                ORDER BY number DESC LIMIT ?2)
            """, [.int(table.account), .int(Int64(KeyValueLimits.keptRemovals))])
    }
}

/// The switch of the device to another account.
struct KeyValueSwitch {
    let from: KeyValueTable
    let to: KeyValueTable

    /// - Parameter handsOver: whether the new account gets the values that were set while the device was signed out.
    /// - Returns: the keys that show another value now.
    func run(handsOver: Bool) throws -> [KeyValueNews] {
        let before = try from.rows()
        let old = Self.values(before)
        if handsOver {
            for account in try KeyValueTable.signedOutAccounts(to.db) where account != to.account {
                let table = KeyValueTable(db: to.db, account: account)
                for row in try table.rows("signedOut <> 0") { try handOver(row, of: table) }
            }
        }
        let new = Self.values(try to.rows())
        var changes = [(store: KeyValueStoreID, reason: KeyValueReason, key: KeyValueKey)]()
        for place in Set(old.keys).union(new.keys) where old[place] != new[place] {
            changes.append((place.store, .accountChange, place.key))
        }
        return KeyValueNews.grouped(changes)
    }

    /// Makes a set pending in the new account. A later set there stays. An earlier account does not give it again.
    private func handOver(_ row: KeyValueRow, of from: KeyValueTable) throws {
        var given = row
        given.isSignedOut = false
        try from.put(given)
        let other = try to.row(row.store, row.key)
        if let other, other.isPending, other.register.current.stamp > row.register.current.stamp { return }
        let before = try to.usage(of: row.store)
        do throws(UbiquityError) {
            try before.replacing(other?.value, with: row.value).requireAllowed(after: before)
        } catch {
            // The account has no space for it. The value stays with the signed-out device.
            return
        }
        var next = KeyValueRow(
            store: row.store, key: row.key,
            register: KeyValueRegister(row.register.current, previous: other?.register.current))
        next.revision = other?.revision ?? .zero
        next.epoch = other?.epoch ?? 0
        next.isPending = true
        try to.put(next)
    }

    private struct Place: Hashable {
        var store: KeyValueStoreID
        var key: KeyValueKey
    }

    private static func values(_ rows: [KeyValueRow]) -> [Place: [UInt8]] {
        var values = [Place: [UInt8]]()
        for row in rows { values[Place(store: row.store, key: row.key)] = row.value }
        return values
    }
}
