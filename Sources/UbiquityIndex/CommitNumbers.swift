import GRDB
internal import UbiquityCore
internal import UbiquitySystem

/// The numbers of commits: each greater than all before it, also across crashes and power loss. By them the cloud tells
/// a commit that the network has held up past later ones.
///
/// A block is on the disk as used before the first of its numbers is given, so a start costs one sync and a block of
/// numbers, and a commit nothing.
struct CommitNumbers {
    /// Numbers written down at a time.
    static let block: Int64 = 1000

    /// The last one given, and the last one that may be.
    var last: Int64 = 0
    var end: Int64 = 0
}

extension ItemIndex {
    package func nextCommitNumber() throws -> Int64 {
        try commitNumbers.withLock { numbers in
            if numbers.last >= numbers.end { numbers = try reserveCommitNumbers(above: numbers.last) }
            numbers.last += 1
            return numbers.last
        }
    }

    /// The cloud has taken a commit of this device with this number, of which the index (an old copy of it, or a new
    /// one of a known device) knows nothing: the coming ones are greater.
    package func raiseCommitNumbers(above last: Int64) throws {
        try commitNumbers.withLock { numbers in
            if last > numbers.last { numbers = try reserveCommitNumbers(above: last) }
        }
    }

    private func reserveCommitNumbers(above last: Int64) throws -> CommitNumbers {
        let numbers = try write(.startup) { transaction in
            let stored = try transaction.number("SELECT value FROM meta WHERE name = 'commits'", []) ?? 0
            let start = max(stored, last)
            let (end, isTooLarge) = start.addingReportingOverflow(CommitNumbers.block)
            guard !isTooLarge else { throw UbiquityError(.io, "there are no numbers left for commits") }
            try transaction.execute("INSERT OR REPLACE INTO meta VALUES ('commits', ?)", [.int(end)])
            return CommitNumbers(last: start, end: end)
        }
        try makeDurable()
        return numbers
    }
}
