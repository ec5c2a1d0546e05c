internal import UbiquityCore
internal import UbiquitySystem

/// SplitMix64: the same numbers for the same seed, on every machine.
package final class SeededRandom: RandomSource, RandomNumberGenerator {
    private let state: Lock<UInt64>

    package init(_ seed: UInt64) { state = Lock(seed) }

    package func next() -> UInt64 {
        state.withLock {
            $0 &+= 0x9E37_79B9_7F4A_7C15
            var z = $0
            z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
            z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
            return z ^ (z >> 31)
        }
    }

    /// 0 ..< bound.
    package func below(_ bound: Int) -> Int { Int(next() % UInt64(max(1, bound))) }

    package func pick<T>(_ choices: [T]) -> T { choices[below(choices.count)] }

    /// True with this probability.
    package func chance(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) / Double(1 << 53) < probability
    }

    package func duration(_ range: ClosedRange<Duration>) -> Duration {
        range.lowerBound + (range.upperBound - range.lowerBound) * Double(next() >> 11) / Double(1 << 53)
    }

    package func bytes(_ count: Int) -> [UInt8] {
        var result = [UInt8]()
        result.reserveCapacity(count + 8)
        while result.count < count { withUnsafeBytes(of: next()) { result.append(contentsOf: $0) } }
        result.removeLast(result.count - count)
        return result
    }
}
