import Testing
import UbiquityCore

@testable import UbiquityVFS

/// The times of last uses, before they reach the index.
@Suite struct UseLogTests {
    /// An open that finds the log full records a batch of it, and nothing is lost.
    @Test func fullLogRecordsABatch() {
        let log = UseLog(), count = UInt64(UseLog.limit)
        for ino in 1..<count { #expect(log.add(ino, now: Timestamp(seconds: Int64(ino), nanoseconds: 0)).isEmpty) }
        let written = log.add(count, now: Timestamp(seconds: Int64(count), nanoseconds: 0))
        #expect(written.count == UseLog.batch)
        let rest = log.removeAll(now: .zero)
        #expect(rest.count == UseLog.limit - UseLog.batch && written.keys.allSatisfy { rest[$0] == nil })
        let all = rest.merging(written) { $1 }
        #expect(all.allSatisfy { $0.value == Timestamp(seconds: Int64($0.key), nanoseconds: 0) })
        #expect(log.removeAll(now: .zero).isEmpty)
    }
}
