import GRDB
package import UbiquityCore
internal import UbiquitySystem

/// Numbers for keys, inodes and contents: each is given once in the life of the index, also across crashes.
///
/// A block is written down as used before its numbers are given, so a transaction that is undone wastes numbers and
/// repeats none.
struct NumberReserve {
    /// Numbers written down at a time.
    static let block: Int64 = 100_000
    /// A transaction may draw this many; a new block is taken before one that might run out.
    static let perTransaction: Int64 = 20_000

    /// Beyond lies what means something else (`ItemIndex.versionNumberBit`).
    static let last = (Int64(1) << ItemIndex.versionNumberBit) - 1 - 2 * block

    var next: Int64 = 0
    var end: Int64 = 0

    mutating func take() -> Int64 {
        defer { next += 1 }
        return next
    }

    /// So many numbers, if they are written down as used already.
    mutating func take(_ count: Int) -> [Int64]? {
        guard end - next >= count else { return nil }
        return (0..<count).map { _ in take() }
    }
}

extension ContentID {
    /// Whether an index can have given it.
    package var isPossible: Bool { (1...NumberReserve.last).contains(rawValue) }
}

extension ItemIndex {
    /// A version that was moved out is an item with the inode number that it had as a version: this bit, which no other
    /// item's has, and a number that was given for it.
    package static let versionNumberBit = 50

    /// Writes down a transaction's numbers beyond the block, should it have drawn so many: with the transaction itself,
    /// so that whatever has such a number survives only if this does.
    func recordOverdraft(_ transaction: IndexTransaction) throws {
        let (next, end) = numbers.withLock { ($0.next, $0.end) }
        if next > end { try transaction.execute(Self.reserving, [.int(next)]) }
    }

    /// Whether fewer numbers are left than a transaction may draw.
    var needsNumbers: Bool { numbers.withLock { $0.end - $0.next < NumberReserve.perTransaction } }

    private static let reserving = "INSERT OR REPLACE INTO meta VALUES ('numbers', ?)"

    /// Of an index that does not say, or cannot be right about, how far its numbers have been given, beyond all that it
    /// has. In a new one 1 is the top folder's.
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

    /// Takes a new block if fewer numbers are left than a transaction may draw. Not inside a transaction: the block
    /// must be written down whatever becomes of that.
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
            // What is left of a block of this run goes on; another run's block is skipped.
            if $0.end != stored { $0.next = start }
            $0.end = newEnd
        }
    }

    /// A content id that was never used.
    package func newContentNumber() throws -> Int64 {
        if let number = numbers.withLock({ $0.take(1) })?.first { return number }
        return try write(.startup) { $0.newNumber() }
    }

    /// The same, several at a time: `count` is at most `NumberReserve.perTransaction`.
    package func newContentNumbers(_ count: Int) throws -> [Int64] {
        if let found = numbers.withLock({ $0.take(count) }) { return found }
        return try write(.startup) { transaction in (0..<count).map { _ in transaction.newNumber() } }
    }
}
