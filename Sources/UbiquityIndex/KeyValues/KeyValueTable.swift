import GRDB
internal import UbiquityCore

/// The rows of one account's key-values, within one access to the database.
struct KeyValueTable {
    /// The statements that make the tables. `meta` has the account in use.
    static let setUp = """
        CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
        CREATE TABLE accounts (
            number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
            revision INTEGER NOT NULL, incarnation INTEGER, synced INTEGER NOT NULL, reading INTEGER NOT NULL,
            epoch INTEGER NOT NULL, forgotten INTEGER NOT NULL, clock INTEGER NOT NULL
        );
        CREATE TABLE entries (
            number INTEGER PRIMARY KEY,
            account INTEGER NOT NULL, store TEXT NOT NULL, key TEXT NOT NULL,
            size INTEGER, revision INTEGER NOT NULL, pending INTEGER NOT NULL, seen INTEGER NOT NULL,
            final INTEGER NOT NULL, signedOut INTEGER NOT NULL, epoch INTEGER NOT NULL,
            time INTEGER NOT NULL, device BLOB NOT NULL, deviceName TEXT NOT NULL, mark INTEGER NOT NULL,
            previousTime INTEGER, previousDevice BLOB, previousName TEXT, previousMark INTEGER,
            value BLOB, previous BLOB,
            UNIQUE (account, store, key)
        );
        CREATE INDEX entriesPending ON entries (account, number) WHERE pending <> 0;

        """

    private static let columns = """
        store, key, revision, pending, seen, final, signedOut, epoch, value, time, device, deviceName, mark,
        previous, previousTime, previousDevice, previousName, previousMark
        """

    let db: Database
    let account: Int64

    // MARK: Accounts

    static func accountInUse(_ db: Database) throws -> Int64? {
        try db.first("SELECT value FROM meta WHERE name = 'account'", []) { $0.int(0) }
    }

    static func use(_ account: Int64, _ db: Database) throws {
        try db.run("INSERT OR REPLACE INTO meta VALUES ('account', ?)", [.int(account)])
    }

    /// The number of an account, which is created on first use.
    static func number(of name: String, _ db: Database) throws -> Int64 {
        let find = "SELECT number FROM accounts WHERE name = ?"
        if let number = try db.first(find, [.text(name)], { $0.int(0) }) { return number }
        try db.run(
            "INSERT INTO accounts (name, revision, synced, reading, epoch, forgotten, clock) "
                + "VALUES (?, 0, 0, 1, 1, 0, 0)",
            [.text(name)])
        return db.lastInsertedRowID
    }

    /// The accounts with sets that no account has got yet.
    static func signedOutAccounts(_ db: Database) throws -> [Int64] {
        var numbers = [Int64]()
        try db.run("SELECT DISTINCT account FROM entries WHERE signedOut <> 0", []) { numbers.append($0.int(0)) }
        return numbers
    }

    func state() throws -> KeyValueAccountRow {
        try db.first(
            """
            SELECT revision, incarnation, synced, reading, epoch, forgotten, clock FROM accounts WHERE number = ?
            """, [.int(account)]
        ) { row in
            var state = KeyValueAccountRow(number: account)
            state.point = KeyValuePoint(
                revision: Revision(row.int(0)), incarnation: row.optionalInt(1).map { UInt64(bitPattern: $0) })
            (state.hasSynced, state.isReading) = (row.int(2) != 0, row.int(3) != 0)
            (state.epoch, state.forgotten, state.clock) = (row.int(4), Revision(row.int(5)), row.int(6))
            return state
        } ?? KeyValueAccountRow(number: account)
    }

    func put(_ state: KeyValueAccountRow) throws {
        try db.run(
            """
            UPDATE accounts SET revision = ?, incarnation = ?, synced = ?, reading = ?, epoch = ?, forgotten = ?,
                clock = ? WHERE number = ?
            """,
            [
                .int(state.point.revision.number), SQLValue(state.point.incarnation.map { Int64(bitPattern: $0) }),
                .int(state.hasSynced ? 1 : 0), .int(state.isReading ? 1 : 0), .int(state.epoch),
                .int(state.forgotten.number), .int(state.clock), .int(account),
            ])
    }

    // MARK: Rows

    func row(_ store: KeyValueStoreID, _ key: KeyValueKey) throws -> KeyValueRow? {
        try db.first(
            "SELECT \(Self.columns) FROM entries WHERE account = ? AND store = ? AND key = ?",
            [.int(account), .text(store.name), .text(key.text)], Self.row) ?? nil
    }

    /// - Parameter condition: of SQL; it may use `values`.
    func rows(_ condition: String = "1", _ values: [SQLValue] = []) throws -> [KeyValueRow] {
        var rows = [KeyValueRow]()
        try db.run(
            "SELECT \(Self.columns) FROM entries WHERE account = ? AND \(condition)", [.int(account)] + values
        ) { row in
            if let row = Self.row(row) { rows.append(row) }
        }
        return rows
    }

    /// Nil for a damaged row: the key counts as not there, and a set replaces it.
    private static func row(_ row: SQLRow) -> KeyValueRow? {
        guard let store = row.text(0).flatMap({ try? KeyValueStoreID($0) }),
            let key = row.text(1).flatMap({ try? KeyValueKey($0) }), let current = entry(row, value: 8)
        else { return nil }
        var found = KeyValueRow(
            store: store, key: key, register: KeyValueRegister(current, previous: entry(row, value: 13)))
        (found.revision, found.isPending, found.seen) = (Revision(row.int(2)), row.int(3) != 0, row.int(4))
        (found.isFinal, found.isSignedOut, found.epoch) = (row.int(5) != 0, row.int(6) != 0, row.int(7))
        return found
    }

    private static func entry(_ row: SQLRow, value: Int32) -> KeyValueEntry? {
        let device: DeviceID? = row.id(value + 2)
        guard let time = row.optionalInt(value + 1), let device else { return nil }
        return KeyValueEntry(
            value: row.bytes(value), stamp: KeyValueStamp(time: time, device: device),
            deviceName: row.text(value + 3) ?? "", mark: UInt64(bitPattern: row.int(value + 4)))
    }

    func put(_ row: KeyValueRow) throws {
        let current = row.register.current, previous = row.register.previous
        try db.run(
            """
            INSERT OR REPLACE INTO entries (account, store, key, size, revision, pending, seen, final, signedOut,
                epoch, time, device, deviceName, mark,
                previousTime, previousDevice, previousName, previousMark, value, previous)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .int(account), .text(row.store.name), .text(row.key.text),
                current.value == nil ? .null : .int(Int64(current.size)), .int(row.revision.number),
                .int(row.isPending ? 1 : 0), .int(row.seen), .int(row.isFinal ? 1 : 0), .int(row.isSignedOut ? 1 : 0),
                .int(row.epoch), .int(current.stamp.time), SQLValue(current.stamp.device), .text(current.deviceName),
                .int(Int64(bitPattern: current.mark)), SQLValue(previous?.stamp.time), SQLValue(previous?.stamp.device),
                previous.map { .text($0.deviceName) } ?? .null,
                SQLValue(previous.map { Int64(bitPattern: $0.mark) }), current.value.map(SQLValue.bytes) ?? .null,
                previous?.value.map(SQLValue.bytes) ?? .null,
            ])
    }

    func remove(_ row: KeyValueRow) throws {
        try db.run(
            "DELETE FROM entries WHERE account = ? AND store = ? AND key = ?",
            [.int(account), .text(row.store.name), .text(row.key.text)])
    }

    func usage(of store: KeyValueStoreID) throws -> KeyValueUsage {
        try db.first(
            "SELECT count(size), sum(size) FROM entries WHERE account = ? AND store = ?",
            [.int(account), .text(store.name)]
        ) { KeyValueUsage(keys: Int($0.int(0)), bytes: Int($0.int(1))) } ?? KeyValueUsage()
    }

    /// All stores that have a value.
    func stores() throws -> [KeyValueStoreID] {
        var names = [String]()
        try db.run(
            "SELECT DISTINCT store FROM entries WHERE account = ? AND size IS NOT NULL", [.int(account)]
        ) { names += $0.text(0).map { [$0] } ?? [] }
        return names.compactMap { try? KeyValueStoreID($0) }.sorted()
    }

    func pendingCount() throws -> Int {
        try db.first(
            "SELECT count(*) FROM entries WHERE account = ? AND pending <> 0", [.int(account)]
        ) { Int($0.int(0)) } ?? 0
    }
}
