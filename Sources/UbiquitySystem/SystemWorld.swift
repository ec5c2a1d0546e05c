import Glibc
import UbiquityCore

/// The machine's clocks.
package struct SystemTimekeeper: Timekeeper {
    package init() {}

    package func now() -> Timestamp { Timestamp(Self.read(CLOCK_REALTIME)) }

    /// Time since the machine started, sleep included: a deadline passes while a laptop is closed.
    package func uptime() -> Duration {
        let time = Self.read(CLOCK_BOOTTIME)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    package func sleep(for duration: Duration) async throws { try await Sleepers.shared.sleep(for: duration) }

    private static func read(_ clock: clockid_t) -> timespec {
        var time = timespec()
        clock_gettime(clock, &time)
        return time
    }
}

/// The kernel's randomness: good enough for ids and tokens.
package struct SystemRandom: RandomSource {
    package init() {}

    package func next() -> UInt64 {
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }
}
