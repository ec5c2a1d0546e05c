import UbiquityContent
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

/// Contents that are the same in every run.
enum Samples {
    /// Bytes that look random: SplitMix64 from `seed`, each number little-endian.
    static func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
        var state = seed
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            var position = 0
            while position < count {
                state &+= 0x9E37_79B9_7F4A_7C15
                var mixed = state
                mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
                mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
                mixed ^= mixed >> 31
                for shift in 0..<min(8, count - position) {
                    buffer[position + shift] = UInt8(truncatingIfNeeded: mixed >> UInt64(8 * shift))
                }
                position += 8
            }
            initialized = count
        }
    }

    static func text(lines: Int) -> [UInt8] {
        (0..<lines).flatMap { Array("\($0) line of text that goes on\n".utf8) }
    }
}

extension ManualTime {
    /// Late enough after the creation of every file of the test that no time stamp is racy.
    static let later = ManualTime(SystemTimekeeper().now().advanced(bySeconds: 3600))
}
