internal import UbiquitySystem

/// Counts the waiting calls by key, for instance by process or by file.
package final class WaitCounter<Key: Hashable & Sendable>: Sendable {
    private let counts = Lock<[Key: Int]>([:])

    init() {}

    package func enter(_ key: Key) { counts.withLock { $0[key, default: 0] += 1 } }

    package func leave(_ key: Key) {
        counts.withLock { counts in
            let left = (counts[key] ?? 1) - 1
            counts[key] = left > 0 ? left : nil
        }
    }

    package func contains(_ key: Key) -> Bool { counts.withLock { $0[key] != nil } }
    package var keys: [Key] { counts.withLock { Array($0.keys) } }
}
