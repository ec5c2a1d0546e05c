package import UbiquityCore
internal import UbiquitySystem

/// Time that a test advances by hand.
package final class ManualTime: Timekeeper {
    /// The effect of a sleep. None of them waits.
    package enum Sleep: Sendable {
        /// Advances the time by the duration.
        case advances
        /// Ends at once and does not change the time.
        case returns
        /// Ends with a cancellation.
        case isCancelled
    }

    private let time: Lock<Timestamp>
    private let sleep: Sleep

    package init(_ start: Timestamp = Timestamp(seconds: 1_800_000_000, nanoseconds: 0), sleep: Sleep = .advances) {
        time = Lock(start)
        self.sleep = sleep
    }

    package func now() -> Timestamp { time.withLock { $0 } }
    package func uptime() -> Duration { .nanoseconds(now().nanoseconds) }
    package func advance(seconds: Double) { time.withLock { $0 = $0.advanced(bySeconds: seconds) } }
    package func advance(_ duration: Duration) { advance(seconds: duration / .seconds(1)) }
    /// One second later.
    package func advance() { advance(seconds: 1) }

    package func sleep(for duration: Duration) async throws {
        switch sleep {
        case .advances: advance(duration)
        case .returns: break
        case .isCancelled: throw CancellationError()
        }
    }
}
