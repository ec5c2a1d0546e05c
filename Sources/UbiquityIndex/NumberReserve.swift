import GRDB
package import UbiquityCore
internal import UbiquitySystem

/// Numbers for keys, inodes and contents. Each is given once in the life of the index, even across crashes.
///
/// A block is stored as used before its numbers are given. So a transaction that is rolled back wastes numbers and
/// repeats none.
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

extension ItemIndex {
    /// A version moved out of the versions folder becomes an item with the version's inode number: this bit, which no
    /// other item has, plus a given number.
    package static let versionNumberBit = 50

    /// Stores the numbers that a transaction took beyond the block, in the transaction itself. So an item with such a
    /// number survives only together with that record.
    func recordOverdraft(_ transaction: IndexTransaction) throws {
        let (next, end) = numbers.withLock { ($0.next, $0.end) }
        if next > end { try transaction.execute(Self.reserving, [.int(next)]) }
    }

    /// Whether fewer numbers are left than a transaction may take.
    var needsNumbers: Bool { numbers.withLock { $0.end - $0.next < NumberReserve.perTransaction } }

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

    private static func setReserved(_ end: Int64, _ db: Database) throws {
        try db.run(reserving, [.int(end)])
    }

    /// Reserves a new block if fewer numbers are left than a transaction may take. Call it outside a transaction: the
    /// block must stay stored even if the transaction is rolled back.
    func reserveNumbers(_ db: Database) throws {
        guard needsNumbers else { return }
        let next = numbers.withLock { $0.next }
        let stored = try Int64.fetchOne(
            db, sql: "SELECT value FROM meta WHERE name = 'numbers' AND value BETWEEN 1 AND \(NumberReserve.last)")
            ?? Self.unknownNumbers(db)
        let start = max(stored, next)
        let newEnd = max(stored, start) + NumberReserve.block
        try Self.setReserved(newEnd, db)
        journal?.noteLone()
        numbers.withLock {
            // The rest of this run's block is used further; another run's block is skipped.
            if $0.end != stored { $0.next = start }
            $0.end = newEnd
        }
    }

    /// Returns a content id that was never used.
    package func newContentNumber() throws -> Int64 {
        if let number = numbers.withLock({ $0.take(1) })?.first { return number }
        return try write(.startup) { $0.newNumber() }
    }

    /// Returns several content ids; `count` is at most `NumberReserve.perTransaction`.
    package func newContentNumbers(_ count: Int) throws -> [Int64] {
        if let found = numbers.withLock({ $0.take(count) }) { return found }
        return try write(.startup) { transaction in (0..<count).map { _ in transaction.newNumber() } }
    }
}
