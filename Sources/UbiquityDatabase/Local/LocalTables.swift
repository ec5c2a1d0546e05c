import FoundationEssentials
import GRDB

/// The tables of this library in the local database, and the values in them.
package enum LocalTables {
    package static func create(_ db: Database) throws {
        try db.execute(sql: """
            CREATE TABLE IF NOT EXISTS ubiquity_meta (name TEXT PRIMARY KEY NOT NULL, value) WITHOUT ROWID;
            CREATE TABLE IF NOT EXISTS ubiquity_column (
                tbl TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (tbl, name)) WITHOUT ROWID;
            -- The dictionaries of the schemas that this device has had.
            CREATE TABLE IF NOT EXISTS ubiquity_schema (
                id INTEGER PRIMARY KEY, version INTEGER NOT NULL, tables BLOB NOT NULL);
            -- Devices with the part of their logs that this database contains.
            CREATE TABLE IF NOT EXISTS ubiquity_device (
                id INTEGER PRIMARY KEY, device INTEGER NOT NULL UNIQUE, time INTEGER NOT NULL DEFAULT 0,
                segment INTEGER NOT NULL DEFAULT 1, position INTEGER NOT NULL DEFAULT 0,
                record BLOB, active INTEGER NOT NULL DEFAULT 0);
            -- Transactions whose entries are not in a segment yet.
            CREATE TABLE IF NOT EXISTS ubiquity_outbox (
                id INTEGER PRIMARY KEY, time INTEGER NOT NULL, dictionary INTEGER NOT NULL, seen BLOB, changes BLOB,
                entry BLOB);
            -- Segments of this device.
            CREATE TABLE IF NOT EXISTS ubiquity_segment (
                number INTEGER PRIMARY KEY, dictionary INTEGER NOT NULL, time INTEGER NOT NULL, size INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS ubiquity_clock (
                tbl INTEGER NOT NULL, key BLOB NOT NULL, clock BLOB NOT NULL, PRIMARY KEY (tbl, key)) WITHOUT ROWID;
            -- Rows that are not shown: their parents are missing, a CHECK refuses them, or they are late values of a
            -- row that is deleted or not here yet.
            CREATE TABLE IF NOT EXISTS ubiquity_parked (
                tbl INTEGER NOT NULL, key BLOB NOT NULL, reason INTEGER NOT NULL, cells BLOB NOT NULL,
                PRIMARY KEY (tbl, key)) WITHOUT ROWID;
            CREATE TABLE IF NOT EXISTS ubiquity_missing (
                parent INTEGER NOT NULL, parentKey BLOB NOT NULL, tbl INTEGER NOT NULL, key BLOB NOT NULL,
                PRIMARY KEY (parent, parentKey, tbl, key)) WITHOUT ROWID;
            CREATE INDEX IF NOT EXISTS ubiquity_missing_child ON ubiquity_missing (tbl, key);
            """)
    }

    package static func exist(_ db: Database) throws -> Bool { try db.tableExists("ubiquity_meta") }
}

/// A named value in `ubiquity_meta`.
package enum Meta: String {
    /// This device's number.
    case device
    /// The newest base whose entries are all in this database.
    case base
    /// The last time of the clock, so that a restart does not go back.
    case clock
    /// The schema's number.
    case schema
    /// Bytes of log that were read or written since the last base.
    case logBytes
    /// Set if this device's own log was lost, so that others need a base.
    case needsBase

    package func int(_ db: Database) throws -> Int64? {
        try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT value FROM ubiquity_meta WHERE name = ?"), arguments: [rawValue])
    }

    package func set(_ value: (any DatabaseValueConvertible)?, _ db: Database) throws {
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO ubiquity_meta (name, value) VALUES (?, ?)")
            .execute(arguments: [rawValue, value])
    }

    package static func deviceID(_ db: Database) throws -> DeviceID? {
        try device.int(db).map { DeviceID(UInt64(bitPattern: $0)) }
    }
}

/// The devices that this database knows, with short numbers for the stored clocks.
package final class DeviceTable {
    private let db: Database
    private var ids: [DeviceID: Int] = [:]
    private var devices: [Int: DeviceID] = [:]

    package init(_ db: Database) throws {
        self.db = db
        for row in try Row.fetchAll(db, sql: "SELECT id, device FROM ubiquity_device") {
            add(row["id"], DeviceID(UInt64(bitPattern: row["device"])))
        }
    }

    private func add(_ id: Int, _ device: DeviceID) {
        ids[device] = id
        devices[id] = device
    }

    package func id(_ device: DeviceID) throws -> Int {
        if device == Stamp.migration.device { return 0 }
        if let id = ids[device] { return id }
        try db.execute(
            sql: "INSERT INTO ubiquity_device (device) VALUES (?)", arguments: [Int64(bitPattern: device.number)])
        let id = Int(db.lastInsertedRowID)
        add(id, device)
        return id
    }

    package func device(_ id: Int) throws -> DeviceID {
        if id == 0 { return Stamp.migration.device }
        guard let device = devices[id] else { throw ByteReader.damage("a clock names an unknown device") }
        return device
    }

    /// The end of the part of a device's log that is in this database.
    package func position(_ device: DeviceID) throws -> LogPosition {
        let row = try Row.fetchOne(
            db, sql: "SELECT time, segment, position FROM ubiquity_device WHERE device = ?",
            arguments: [Int64(bitPattern: device.number)])
        guard let row else { return LogPosition() }
        return LogPosition(time: UInt64(row["time"] as Int64), segment: row["segment"], offset: row["position"])
    }

    package func set(_ position: LogPosition, _ device: DeviceID) throws {
        try db.execute(
            sql: "UPDATE ubiquity_device SET time = ?, segment = ?, position = ? WHERE id = ?",
            arguments: [Int64(position.time), position.segment, position.offset, try id(device)])
    }

    /// The last known entry of every device, without devices that have none.
    package func positions() throws -> [DeviceID: LogPosition] {
        var result: [DeviceID: LogPosition] = [:]
        for device in ids.keys {
            let position = try position(device)
            if position.time > 0 { result[device] = position }
        }
        return result
    }

    package var all: [DeviceID] { ids.keys.sorted() }

    /// Records that a device was seen alive.
    package func touch(_ device: DeviceID, at milliseconds: Int64) throws {
        try db.execute(
            sql: "UPDATE ubiquity_device SET active = ? WHERE id = ?", arguments: [milliseconds, try id(device)])
    }

    /// Stores a device's record; returns whether it is new.
    package func setRecord(_ bytes: [UInt8], _ device: DeviceID) throws -> Bool {
        let id = try id(device)
        let old = try Data.fetchOne(db, sql: "SELECT record FROM ubiquity_device WHERE id = ?", arguments: [id])
        guard old.map(Array.init) != bytes else { return false }
        try db.execute(
            sql: "UPDATE ubiquity_device SET record = ? WHERE id = ?", arguments: [Data(bytes), id])
        return true
    }

    package func activity(_ device: DeviceID) throws -> (record: DeviceRecord?, active: Int64) {
        let row = try Row.fetchOne(
            db, sql: "SELECT record, active FROM ubiquity_device WHERE device = ?",
            arguments: [Int64(bitPattern: device.number)])
        guard let row else { return (nil, 0) }
        let record = try (row["record"] as Data?).map { try DeviceRecord(Array($0)) }
        return (record, row["active"])
    }
}
