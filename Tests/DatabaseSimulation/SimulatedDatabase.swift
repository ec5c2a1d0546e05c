import GRDB
import UbiquityCore
import UbiquityDatabase

/// A device of the simulation: a database in memory, and a folder.
final class SimulatedDatabase {
    let name: Int
    let queue: DatabaseQueue
    let folder: SimulatedFolder
    private let schema: RandomSchema
    private let random: SimulationRandom
    private let clock: SimulatedClock
    private let fault: DatabaseFault?
    private(set) var version: Int
    private(set) var context: LogContext
    var isAway = false

    init(
        _ name: Int, _ schema: RandomSchema, version: Int, _ folder: SimulatedFolder, _ random: SimulationRandom,
        _ clock: SimulatedClock, fault: DatabaseFault?
    ) throws {
        (self.name, self.schema, self.version, self.folder) = (name, schema, version, folder)
        (self.random, self.clock, self.fault) = (random, clock, fault)
        queue = try DatabaseQueue()
        context = try Self.open(queue, schema, version, folder, random, clock, fault)
    }

    private static func open(
        _ queue: DatabaseQueue, _ schema: RandomSchema, _ version: Int, _ folder: SimulatedFolder,
        _ random: SimulationRandom, _ clock: SimulatedClock, _ fault: DatabaseFault?
    ) throws -> LogContext {
        var opening = DatabaseOpening(
            migrator: schema.migrator(version), now: { clock.now }, random: SimulationSource(random))
        opening.limits.segmentBytes = 300
        opening.limits.baseBytes = 1500
        opening.limits.partBytes = 400
        opening.limits.importBytes = 200
        opening.fault = fault
        return try opening.open(queue, folder)
    }

    func restart(version: Int) throws {
        self.version = version
        context = try Self.open(queue, schema, version, folder, random, clock, fault)
    }

    func picture() throws -> TablePicture { try queue.read { try Self.picture($0, schema, version) } }

    static func picture(_ db: Database, _ schema: RandomSchema, _ version: Int) throws -> TablePicture {
        var result: TablePicture = [:]
        for table in schema.tables(version) {
            var rows: [[DatabaseValue]: [String: DatabaseValue]] = [:]
            for row in try Row.fetchAll(db, sql: "SELECT * FROM \(table.name)") {
                var values: [String: DatabaseValue] = [:]
                for (column, value) in row { values[column] = value }
                let key = [values.removeValue(forKey: "id") ?? .null]
                    + (table.hasTwoKeys ? [values.removeValue(forKey: "second") ?? .null] : [])
                rows[key] = values
            }
            result[table.name] = rows
        }
        return result
    }

    /// Runs a random transaction; returns its writes, nil if the database refused it.
    func write() throws -> ReferenceModel.Transaction? {
        let before = try picture()
        do {
            try queue.write { db in
                try Outbox(context).record(db) { db in
                    for _ in 0..<(1 + random.below(3)) { try change(db) }
                }
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return nil
        }
        let writes = ReferenceModel.writes(from: before, to: try picture())
        guard !writes.isEmpty else { return nil }
        return try queue.read { db in
            guard let device = try Meta.deviceID(db),
                let time = try Int64.fetchOne(db, sql: "SELECT max(time) FROM ubiquity_outbox")
            else { return nil }
            return ReferenceModel.Transaction(stamp: Stamp(UInt64(time), device), writes: writes)
        }
    }

    private func change(_ db: Database) throws {
        let tables = schema.tables(version), table = tables[random.below(tables.count)]
        let condition = table.hasTwoKeys ? "id = ? AND second = ?" : "id = ?"
        let key: [any DatabaseValueConvertible] = ["k\(random.below(6))"] + (table.hasTwoKeys ? [random.below(2)] : [])
        let value = random.below(100)
        switch random.below(10) {
        case 0...3:
            let columns = table.columns.filter { _ in random.below(3) > 0 }
            let names = ["id"] + (table.hasTwoKeys ? ["second"] : []) + columns
            let marks = names.map { _ in "?" }.joined(separator: ", ")
            try db.execute(
                sql: "INSERT OR IGNORE INTO \(table.name) (\(names.joined(separator: ", "))) VALUES (\(marks))",
                arguments: StatementArguments(key + columns.map { _ in random.below(100) }))
            try db.execute(sql: "UPDATE \(table.name) SET c0 = ? WHERE \(condition)", arguments: StatementArguments([value] + key))
            try setParent(table, condition, key, db)
        case 4...6:
            let column = table.columns[random.below(table.columns.count)]
            try db.execute(
                sql: "UPDATE \(table.name) SET \(column) = ? WHERE \(condition)",
                arguments: StatementArguments([value] + key))
        case 7: try setParent(table, condition, key, db)
        default:
            try db.execute(
                sql: "DELETE FROM \(table.name) WHERE \(condition)", arguments: StatementArguments(key))
            if random.below(4) == 0 {
                let second = table.hasTwoKeys ? ", second" : "", mark = table.hasTwoKeys ? ", ?" : ""
                try db.execute(
                    sql: "INSERT OR IGNORE INTO \(table.name) (id\(second)) VALUES (?\(mark))",
                    arguments: StatementArguments(key))
            }
        }
    }

    private func setParent(
        _ table: RandomSchema.Table, _ condition: String, _ key: [any DatabaseValueConvertible], _ db: Database
    ) throws {
        guard let parent = table.parent else { return }
        let candidates = try String.fetchAll(db, sql: "SELECT id FROM \(parent.name) ORDER BY id")
        guard !candidates.isEmpty else { return }
        try db.execute(
            sql: "UPDATE \(table.name) SET parent = ? WHERE \(condition)",
            arguments: StatementArguments([candidates[random.below(candidates.count)]] + key))
    }

    /// Runs a step of the sync. A device that was away too long takes a new number: returns the new stamps of its own
    /// entries, oldest first.
    func sync(_ step: (LogContext) throws -> Void) throws -> [Stamp] {
        let before = try queue.read { try Meta.deviceID($0) }
        try step(context)
        return try queue.read { db in
            guard let after = try Meta.deviceID(db), after != before else { return [] }
            return try Int64.fetchAll(db, sql: "SELECT time FROM ubiquity_outbox ORDER BY id")
                .map { Stamp(UInt64($0), after) }
        }
    }
}

/// A device's wall clock: the world's time with an error.
final class SimulatedClock: @unchecked Sendable {
    let world: WorldTime
    var skew: Int64

    init(_ world: WorldTime, skew: Int64) { (self.world, self.skew) = (world, skew) }
    var now: Int64 { max(1, world.milliseconds + skew) }
}

final class WorldTime: @unchecked Sendable {
    var milliseconds: Int64 = 1_700_000_000_000
}

struct SimulationSource: RandomSource {
    let random: SimulationRandom
    init(_ random: SimulationRandom) { self.random = random }
    func next() -> UInt64 { random.next() }
}
