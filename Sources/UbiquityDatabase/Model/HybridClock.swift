import UbiquityCore
import UbiquitySystem

/// The hybrid logical clock of a device. A new time is later than every time seen before, however wrong the device's
/// clock is.
package final class HybridClock: Sendable {
    /// Times from other devices beyond this one, in the year 4199, are damage.
    package static let limit: UInt64 = 1 << 62

    private let last: Lock<UInt64>

    package init(after time: UInt64) { last = Lock(time) }

    package var latest: UInt64 { last.withLock { $0 } }

    package func observe(_ time: UInt64) { last.withLock { $0 = max($0, time) } }

    /// - Parameter milliseconds: The device's wall clock, since 1970.
    package func next(_ milliseconds: Int64) -> UInt64 {
        let now = UInt64(max(0, min(milliseconds, 1 << 45))) << 16
        return last.withLock { last in
            last = max(last + 1, now)
            return last
        }
    }
}
