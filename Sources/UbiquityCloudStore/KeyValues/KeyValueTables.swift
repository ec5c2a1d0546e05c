import GRDB
internal import UbiquityCore

/// The key-values of one container, within one access to the database.
///
/// `keyValueFeeds` has one row for each container: the revision of the last change, the revision of the last forgotten
/// removal, and the latest hybrid time. No trigger counts these rows: they are outside the account's quota, and
/// `KeyValueLimits` bounds them.
struct KeyValueTables {
    /// The statements that make the tables.
    static let setUp = """
        CREATE TABLE keyValueFeeds (
            container INTEGER PRIMARY KEY,
            revision INTEGER NOT NULL, forgotten INTEGER NOT NULL, latest INTEGER NOT NULL
        );
        CREATE TABLE keyValues (
            number INTEGER PRIMARY KEY,
            container INTEGER NOT NULL, store TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL,
            size INTEGER, time INTEGER NOT NULL, device BLOB NOT NULL, deviceName TEXT NOT NULL, mark INTEGER NOT NULL,
            previousTime INTEGER, previousDevice BLOB, previousName TEXT, previousMark INTEGER,
            value BLOB, previous BLOB,
            UNIQUE (container, store, key)
        );
        CREATE INDEX keyValuesFeed ON keyValues (container, revision);

        """

    private static let columns = """
        store, key, revision, value, time, device, deviceName, mark,
        previous, previousTime, previousDevice, previousName, previousMark
        """

    let db: Database
    let container: Int64
    var rules = KeyValueRules()

    struct Feed {
        var revision = Revision.zero
        var forgotten = Revision.zero
        var latest = Int64.min
    }

    func feed() throws -> Feed {
        let row = try Row.fetchOne(
            db, sql: "SELECT revision, forgotten, latest FROM keyValueFeeds WHERE container = ?",
            arguments: [container])
        guard let row else { return Feed() }
        return Feed(
            revision: Revision(row.number(0) ?? 0), forgotten: Revision(row.number(1) ?? 0),
            latest: row.number(2) ?? .min)
    }

    // MARK: Reading

    /// Records after a revision, until their values have `limit` bytes.
    func records(after revision: Revision, limit: Int) throws -> (records: [KeyValueRecord], hasMore: Bool) {
        let rows = try Row.fetchCursor(
            db, sql: "SELECT \(Self.columns) FROM keyValues WHERE container = ? AND revision > ? ORDER BY revision",
            arguments: [container, revision.number])
        var records = [KeyValueRecord](), bytes = 0
        while let row = try rows.next() {
            guard bytes < limit else { return (records, true) }
            // A damaged row is skipped: its device sets the key again.
            guard let record = Self.record(row) else { continue }
            bytes += record.bytes + KeyValueLimits.maximumKeyLength
            records.append(record)
        }
        return (records, false)
    }

    func record(_ store: KeyValueStoreID, _ key: KeyValueKey) throws -> KeyValueRecord? {
        try Row.fetchOne(
            db, sql: "SELECT \(Self.columns) FROM keyValues WHERE container = ? AND store = ? AND key = ?",
            arguments: [container, store.name, key.text]
        ).flatMap(Self.record)
    }

    private static func record(_ row: Row) -> KeyValueRecord? {
        guard let store = row.text(0).flatMap({ try? KeyValueStoreID($0) }),
            let key = row.text(1).flatMap({ try? KeyValueKey($0) }), let revision = row.number(2), revision > 0,
            let current = entry(row, value: 3, time: 4)
        else { return nil }
        let register = KeyValueRegister(current, previous: entry(row, value: 8, time: 9))
        return KeyValueRecord(store: store, key: key, revision: Revision(revision), register: register)
    }

    /// The entry in five columns. Nil if there is none.
    private static func entry(_ row: Row, value: Int, time first: Int) -> KeyValueEntry? {
        guard let time = row.number(first), let device = DeviceID(bytes: row.bytes(first + 1) ?? []) else { return nil }
        return KeyValueEntry(
            value: row.bytes(value), stamp: KeyValueStamp(time: time, device: device),
            deviceName: row.text(first + 2) ?? "", mark: UInt64(bitPattern: row.number(first + 3) ?? 0))
    }

    func usage(of store: KeyValueStoreID) throws -> KeyValueUsage {
        let row = try Row.fetchOne(
            db, sql: "SELECT count(size), sum(size) FROM keyValues WHERE container = ? AND store = ?",
            arguments: [container, store.name])
        return KeyValueUsage(keys: Int(row?.number(0) ?? 0), bytes: Int(row?.number(1) ?? 0))
    }

    private func isNew(_ store: KeyValueStoreID) throws -> Bool {
        try Row.fetchOne(
            db, sql: "SELECT 1 FROM keyValues WHERE container = ? AND store = ? LIMIT 1",
            arguments: [container, store.name]) == nil
    }

    private func storeCount() throws -> Int {
        try Int.fetchOne(
            db, sql: "SELECT count(DISTINCT store) FROM keyValues WHERE container = ?", arguments: [container]) ?? 0
    }

    // MARK: Applying

    /// Applies the sets, those first that make their store smaller. Each fits or is refused by itself.
    func apply(_ push: KeyValuePush, now: Timestamp) throws -> [KeyValueResult] {
        for change in push.changes where !change.isFinal && change.entry.stamp.device != push.device {
            throw UbiquityError(.invalid, "a set of another device without its final time")
        }
        var growth = [Int]()
        for change in push.changes {
            let old = try record(change.store, change.key)?.register.current
            growth.append(change.entry.size - (old?.size ?? 0) + (change.entry.value == nil ? -1 : 0))
        }
        var feed = try feed(), results = [Int: KeyValueResult]()
        for index in push.changes.indices.sorted(by: { (growth[$0], $0) < (growth[$1], $1) }) {
            results[index] = try apply(push.changes[index], push, &feed, now: now.nanoseconds)
        }
        let removing = push.changes.filter { $0.entry.value == nil }
        for store in Set(removing.map(\.store)) { try forget(in: store, &feed) }
        try db.execute(
            sql: "INSERT OR REPLACE INTO keyValueFeeds VALUES (?, ?, ?, ?)",
            arguments: [container, feed.revision.number, feed.forgotten.number, feed.latest])
        return push.changes.indices.compactMap { results[$0] }
    }

    private func apply(
        _ change: KeyValueChange, _ push: KeyValuePush, _ feed: inout Feed, now: Int64
    ) throws -> KeyValueResult {
        let known = try record(change.store, change.key)
        let entry = stamped(change, push, feed, now: now)
        guard var record = known else {
            let fits = try isAllowed(nil, entry, in: change.store)
            guard fits, try !isNew(change.store) || storeCount() < KeyValueLimits.maximumStores else {
                return KeyValueResult(outcome: .refused, record: nil)
            }
            return try put(change, KeyValueRegister(entry), .applied, &feed)
        }
        switch record.register.merge(entry) {
        case .known:
            let isCurrent = record.register.current.mark == entry.mark
            return KeyValueResult(outcome: isCurrent ? .applied : .superseded, record: record)
        case .lost: return try put(change, record.register, .superseded, &feed)
        case .won:
            guard try isAllowed(known?.register.current.value, entry, in: change.store) else {
                return KeyValueResult(outcome: .refused, record: known)
            }
            return try put(change, record.register, .applied, &feed)
        }
    }

    /// The set with its final time.
    private func stamped(
        _ change: KeyValueChange, _ push: KeyValuePush, _ feed: Feed, now: Int64
    ) -> KeyValueEntry {
        var entry = change.entry
        if change.isFinal || !rules.correctsClocks {
            entry.stamp.time = rules.correctsClocks ? min(entry.stamp.time, now) : entry.stamp.time
        } else {
            entry.stamp.time = KeyValueClock.time(
                changedAt: entry.stamp.time, sentAt: push.sentAt.nanoseconds, seen: change.seen, now: now,
                latest: feed.latest)
        }
        return entry
    }

    private func isAllowed(_ old: [UInt8]?, _ entry: KeyValueEntry, in store: KeyValueStoreID) throws -> Bool {
        guard rules.limitsMergedStores else { return true }
        let before = try usage(of: store)
        do {
            try before.replacing(old, with: entry.value).requireAllowed(after: before)
            return true
        } catch { return false }
    }

    private func put(
        _ change: KeyValueChange, _ register: KeyValueRegister, _ outcome: KeyValueResult.Outcome, _ feed: inout Feed
    ) throws -> KeyValueResult {
        feed.revision = feed.revision.next
        feed.latest = max(feed.latest, register.current.stamp.time)
        let record = KeyValueRecord(
            store: change.store, key: change.key, revision: feed.revision, register: register)
        let current = register.current, previous = register.previous
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO keyValues (container, store, key, revision, size, time, device, deviceName, mark,
                    previousTime, previousDevice, previousName, previousMark, value, previous)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                container, change.store.name, change.key.text, record.revision.number,
                current.value == nil ? nil : current.size, current.stamp.time, Bytes(current.stamp.device.bytes),
                current.deviceName, Int64(bitPattern: current.mark), previous?.stamp.time,
                previous.map { Bytes($0.stamp.device.bytes) }, previous?.deviceName,
                previous.map { Int64(bitPattern: $0.mark) }, current.value.map(Bytes.init),
                previous?.value.map(Bytes.init),
            ])
        return KeyValueResult(outcome: outcome, record: record)
    }

    /// Forgets the oldest removals of a store if it has too many.
    private func forget(in store: KeyValueStoreID, _ feed: inout Feed) throws {
        let removals = "FROM keyValues WHERE container = ? AND store = ? AND size IS NULL"
        let count = try Int.fetchOne(
            db, sql: "SELECT count(*) \(removals)", arguments: [container, store.name]) ?? 0
        guard count > KeyValueLimits.keptRemovals else { return }
        let last = try Int64.fetchOne(
            db, sql: "SELECT revision \(removals) ORDER BY revision LIMIT 1 OFFSET ?",
            arguments: [container, store.name, count - KeyValueLimits.keptRemovals - 1]) ?? 0
        try db.execute(
            sql: "DELETE \(removals) AND revision <= ?", arguments: [container, store.name, last])
        feed.forgotten = max(feed.forgotten, Revision(last))
    }
}
