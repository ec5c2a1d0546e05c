internal import UbiquityCore
internal import UbiquitySystem

/// The numbers of commits. Each is greater than all before it, even across crashes and power loss. The cloud uses them
/// to recognize a commit that the network delivered after later ones.
///
/// A block of numbers is on disk before its first number is given. So a start costs one sync and some unused numbers; a
/// commit costs nothing.
final class CommitNumbers: Sendable {
    /// Numbers reserved at a time.
    static let block: Int64 = 1000
    /// Commits that an old copy of an index may lack. A cloud that says more would soon leave no numbers.
    static let largestJump: Int64 = 1 << 32

    private struct Reserve {
        /// The last number given, and the last number reserved.
        var last: Int64 = 0
        var end: Int64 = 0
    }

    private let log: IndexLog
    /// Locked during a reservation, which writes the index.
    private let reserve = Lock(Reserve())

    init(_ log: IndexLog) { self.log = log }

    func next() throws -> Int64 {
        try reserve.withLock { reserve in
            if reserve.last >= reserve.end { reserve = try newBlock(above: reserve.last) }
            reserve.last += 1
            return reserve.last
        }
    }

    /// Raises the next number above `last`. Needed if the cloud has a commit of this device that the index does not
    /// know: the index is an old copy, or new on a known device.
    func raise(above last: Int64) throws {
        try reserve.withLock { reserve in
            guard last > reserve.last else { return }
            guard last - reserve.last <= Self.largestJump else {
                throw UbiquityError(.invalid, "the cloud says that this device has made \(last) commits")
            }
            reserve = try newBlock(above: last)
        }
    }

    private func newBlock(above last: Int64) throws -> Reserve {
        let reserve = try log.writeAlone { db in
            let known = "SELECT value FROM meta WHERE name = 'commits'"
            let stored = try db.first(known, []) { $0.int(0) } ?? 0
            let start = max(stored, last)
            let (end, isTooLarge) = start.addingReportingOverflow(Self.block)
            guard !isTooLarge else { throw UbiquityError(.io, "all commit numbers are used up") }
            try db.run("INSERT OR REPLACE INTO meta VALUES ('commits', ?)", [.int(end)])
            return Reserve(last: start, end: end)
        }
        try log.makeDurable()
        return reserve
    }
}
