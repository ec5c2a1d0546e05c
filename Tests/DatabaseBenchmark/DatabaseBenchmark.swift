import FoundationEssentials
import GRDB
import UbiquityDatabase

/// Measures a synced database beside a plain GRDB database, in one run.
///
/// `database-benchmark FOLDER [FIRST SECOND]`: FOLDER is for scratch files on the disk. FIRST and SECOND are the same
/// container on two devices; without them both devices share a plain folder.
@main
struct DatabaseBenchmark {
    private static let writes = 2000, rounds = 5, bulk = 10_000, changes = 41, rows = 100_000
    private let clock = ContinuousClock()
    private let scratch: URL

    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst().map { URL(filePath: $0) }
        guard let scratch = arguments.first else { return print("usage: database-benchmark FOLDER [FIRST SECOND]") }
        let benchmark = DatabaseBenchmark(scratch: scratch)
        try await benchmark.local()
        let shared = scratch.appending(path: "shared", directoryHint: .isDirectory)
        let folders = arguments.count > 2 ? (arguments[1], arguments[2]) : (shared, shared)
        try await benchmark.remote(folders.0, folders.1)
    }

    private init(scratch: URL) { self.scratch = scratch }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(sql: "CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, name TEXT, number INTEGER)")
        }
        return migrator
    }

    private func insert(_ db: Database, _ number: Int) throws {
        let statement = try db.cachedStatement(sql: "INSERT INTO item VALUES (?, ?, ?)")
        try statement.execute(arguments: [UUID().uuidString, "item \(number)", number])
    }

    private func open(_ name: String, in folder: URL, local: URL) throws -> SyncedDatabase {
        var configuration = SyncedDatabaseConfiguration()
        configuration.localFolder = local
        return try SyncedDatabase(named: name, in: folder, migrator: Self.migrator, configuration: configuration)
    }

    private func report(_ name: String, _ value: Double, _ unit: String, _ goal: String = "") {
        let digits = String(Int(value * 100 + 0.5)), padded = String(repeating: "0", count: max(0, 3 - digits.count)) + digits
        print("\(name): \(padded.dropLast(2)).\(padded.suffix(2)) \(unit)\(goal.isEmpty ? "" : " (goal \(goal))")")
    }

    private func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
    private func microseconds(_ body: () throws -> Void) rethrows -> Double {
        let start = clock.now
        try body()
        return (clock.now - start) / .microseconds(1)
    }

    // MARK: Local writes

    private func local() async throws {
        let plain = try DatabasePool(path: scratch.appending(path: "plain.sqlite").path)
        try Self.migrator.migrate(plain)
        let folder = scratch.appending(path: "alone", directoryHint: .isDirectory)
        let synced = try open("Alone", in: folder, local: folder.appending(path: "local"))
        var times: (plain: [Double], synced: [Double]) = ([], [])
        for number in 0..<Self.writes {
            times.plain.append(try microseconds { try plain.write { try insert($0, number) } })
            times.synced.append(try microseconds { try synced.write { try insert($0, number) } })
        }
        compare("a write of one row", times, "1.3")
        times = ([], [])
        for _ in 0..<Self.rounds {
            times.plain.append(try microseconds {
                try plain.write { db in for number in 0..<Self.bulk { try insert(db, number) } }
            })
            times.synced.append(try microseconds {
                try synced.write { db in for number in 0..<Self.bulk { try insert(db, number) } }
            })
        }
        compare("10,000 rows in a transaction", times, "1.5")
        try await synced.close()
        try plain.close()
    }

    private func compare(_ name: String, _ times: (plain: [Double], synced: [Double]), _ goal: String) {
        report("\(name), plain", median(times.plain), "µs")
        report("\(name), synced", median(times.synced), "µs")
        report("\(name), ratio", median(times.synced) / median(times.plain), "times", "at most \(goal)")
    }

    // MARK: Two devices

    private func remote(_ first: URL, _ second: URL) async throws {
        let writer = try open("Pair", in: first, local: scratch.appending(path: "first"))
        let reader = try open("Pair", in: second, local: scratch.appending(path: "second"))
        var times: [Double] = []
        for number in 0..<Self.changes {
            let arrivals = reader.importedChanges, start = clock.now
            try await writer.write { db in
                try db.execute(sql: "INSERT INTO item VALUES (?, 'new', ?)", arguments: ["change \(number)", number])
            }
            for await _ in arrivals where try reader.read({ db in
                try Int.fetchOne(db, sql: "SELECT 1 FROM item WHERE number = ?", arguments: [number]) != nil
            }) { break }
            times.append((clock.now - start) / .milliseconds(1))
        }
        report("a change in a query on the other device, median", median(times), "ms", "at most 300")
        try await writer.write { db in for number in 0..<Self.rows { try insert(db, number) } }
        try await writer.synchronize()
        try await reader.close()
        let start = clock.now
        let fresh = try open("Pair", in: first, local: scratch.appending(path: "fresh"))
        while try fresh.read({ try Int.fetchOne($0, sql: "SELECT count(*) FROM item") ?? 0 }) < Self.rows {
            try await fresh.synchronize()
        }
        report("a new device with 100,000 rows, ready after", (clock.now - start) / .seconds(1), "s", "at most 5")
        try await fresh.close()
        try await writer.close()
    }
}
