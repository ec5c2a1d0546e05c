import GRDB
internal import UbiquityCore
internal import UbiquitySystem

/// The numbers of commits. Each is greater than all before it, even across crashes and power loss. The cloud uses them
/// to recognize a commit that the network delivered after later ones.
///
/// The index reserves a block of numbers on disk before it gives the first one. So a start costs one sync and some
/// unused numbers; a commit costs nothing.
struct CommitNumbers {
    /// Numbers reserved at a time.
    static let block: Int64 = 1000
    /// Commits that an old copy of an index may lack. A cloud that says more would soon leave no numbers.
    static let largestJump: Int64 = 1 << 32

    /// The last number given, and the last number reserved.
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

    /// Raises the next number above `last`. Needed if the cloud has a commit of this device that the index does not
    /// know: the index is an old copy, or new on a known device.
    package func raiseCommitNumbers(above last: Int64) throws {
        try commitNumbers.withLock { numbers in
            guard last > numbers.last else { return }
            guard last - numbers.last <= CommitNumbers.largestJump else {
                throw UbiquityError(.invalid, "the cloud says that this device has made \(last) commits")
            }
            numbers = try reserveCommitNumbers(above: last)
        }
    }

    private func reserveCommitNumbers(above last: Int64) throws -> CommitNumbers {
        let numbers = try write(.startup) { transaction in
            let stored = try transaction.number("SELECT value FROM meta WHERE name = 'commits'", []) ?? 0
            let start = max(stored, last)
            let (end, isTooLarge) = start.addingReportingOverflow(CommitNumbers.block)
            guard !isTooLarge else { throw UbiquityError(.io, "all commit numbers are used up") }
            try transaction.execute("INSERT OR REPLACE INTO meta VALUES ('commits', ?)", [.int(end)])
            return CommitNumbers(last: start, end: end)
        }
        try makeDurable()
        return numbers
    }
}
