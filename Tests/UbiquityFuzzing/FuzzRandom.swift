/// SplitMix64: the same numbers for the same seed and execution, on every machine. Each execution has its own, so that
/// one can be repeated without those before it.
package struct FuzzRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64, execution: UInt64) {
        state = seed &* 0xD134_2543_DE82_EF95 &+ execution &* 0x9E37_79B9_7F4A_7C15
        _ = next()
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    /// 0 ..< bound.
    package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(max(1, bound))) }

    package mutating func pick<T>(_ choices: [T]) -> T { choices[below(choices.count)] }

    /// One time out of `times`.
    package mutating func oneIn(_ times: Int) -> Bool { below(times) == 0 }

    package mutating func byte() -> UInt8 { UInt8(truncatingIfNeeded: next()) }

    package mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in byte() } }

    /// A number that often breaks parsers: small, near a power of two, the largest, the smallest.
    package mutating func oddNumber() -> Int64 {
        switch below(6) {
        case 0: Int64(below(4)) - 1
        case 1: Int64(below(300))
        case 2: (1 << Int64(below(63))) &+ Int64(below(3)) &- 1
        case 3: Int64.max &- Int64(below(3))
        case 4: Int64.min &+ Int64(below(3))
        default: Int64(bitPattern: next())
        }
    }
}
