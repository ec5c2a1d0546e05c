internal import UbiquitySystem

/// Programs whose calls wait for something: a content, a claim. One that waits in an open has nothing open yet, and
/// keeps the mount from being taken away all the same.
package final class WaitingCallers: Sendable {
    private let counts = Lock<[Int32: Int]>([:])

    init() {}

    /// - Parameter thread: of the program; 0 if it cannot be seen from here.
    package func enter(_ thread: Int32) { counts.withLock { $0[thread, default: 0] += 1 } }

    package func leave(_ thread: Int32) {
        counts.withLock { counts in
            let left = (counts[thread] ?? 1) - 1
            counts[thread] = left > 0 ? left : nil
        }
    }

    package var threads: [Int32] { counts.withLock { $0.keys.filter { $0 > 0 } } }
}
