import GRDB
package import UbiquityCore
internal import UbiquitySystem

/// A block of numbers that is stored as used.
struct NumberReserve {
    /// Numbers stored as used at a time.
    static let block: Int64 = 100_000
    /// Numbers that a transaction may take. A new block is reserved before a transaction that might run out.
    static let perTransaction: Int64 = 20_000

    /// Greater numbers have another meaning (`ItemIndex.versionNumberBit`).
    static let last = (Int64(1) << ItemIndex.versionNumberBit) - 1 - 2 * block

    var next: Int64 = 0
    var end: Int64 = 0

    mutating func take() -> Int64 {
        defer { next += 1 }
        return next
    }

    /// Takes several numbers if they are stored as used already.
    mutating func take(_ count: Int) -> [Int64]? {
        guard end - next >= count else { return nil }
        return (0..<count).map { _ in take() }
    }
}

extension ContentID {
    /// Whether an index can have given this id.
    package var isPossible: Bool { (1...NumberReserve.last).contains(rawValue) }
}

/// Numbers for keys, inodes and contents. Each is given once in the life of the index, even across crashes.
///
/// A block is stored as used before its numbers are given. So a transaction that is rolled back wastes numbers and
/// repeats none. `IndexLog` reserves blocks; transactions take numbers.
final class ItemNumbers: Sendable {
    private let reserve = Lock(NumberReserve())

    func next() -> Int64 { reserve.withLock { $0.take() } }

    /// Returns the number that `next` would return.
    var upcoming: Int64 { reserve.withLock { $0.next } }

    /// Returns several numbers if they are stored as used already.
    func next(_ count: Int) -> [Int64]? { reserve.withLock { $0.take(count) } }

    /// Whether fewer numbers are left than a transaction may take.
    var isLow: Bool { reserve.withLock { $0.end - $0.next < NumberReserve.perTransaction } }

    /// Stores the numbers that a transaction took beyond the block, in the transaction itself. So an item with such a
    /// number survives only together with that record.
    func recordOverdraft(_ transaction: IndexTransaction) throws {
        let (next, end) = reserve.withLock { ($0.next, $0.end) }
        if next > end { try transaction.execute(Self.reserving, [.int(next)]) }
    }

    /// Reserves a new block if fewer numbers are left than a transaction may take. Call it outside a transaction: the
    /// block must stay stored even if the transaction is rolled back.
    func refill(_ db: Database, _ journal: IndexJournal?) throws {
        guard isLow else { return }
        let next = upcoming
        let stored = try Int64.fetchOne(
            db, sql: "SELECT value FROM meta WHERE name = 'numbers' AND value BETWEEN 1 AND \(NumberReserve.last)")
            ?? Self.unknownNumbers(db)
        let start = max(stored, next)
        let newEnd = max(stored, start) + NumberReserve.block
        try db.run(Self.reserving, [.int(newEnd)])
        journal?.noteLone()
        reserve.withLock {
            // The remainder of this run's block is used further; another run's block is skipped.
            if $0.end != stored { $0.next = start }
            $0.end = newEnd
        }
    }

    private static let reserving = "INSERT OR REPLACE INTO meta VALUES ('numbers', ?)"

    /// Returns a start beyond all numbers in use, for an index without a valid record of used numbers. In a new index,
    /// 1 is the top folder's.
    private static func unknownNumbers(_ db: Database) throws -> Int64 {
        let used = try Int64.fetchOne(
            db,
            sql: """
                SELECT max(number) FROM (
                    SELECT key AS number FROM items UNION ALL SELECT ino FROM items
                    UNION ALL SELECT content FROM items UNION ALL SELECT dirtyOrder FROM items
                    UNION ALL SELECT content FROM contents)
                WHERE number BETWEEN 1 AND \(NumberReserve.last)
                """)
        guard let used, used > 1 else { return 2 }
        return used + NumberReserve.block
    }
}
