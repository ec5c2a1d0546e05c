import UbiquityCore
import UbiquitySystem

/// The machine's time, shifted by a number of seconds that the test sets.
final class ShiftedTime: Timekeeper {
    let shift = Lock(0.0)
    private let base = SystemTimekeeper()

    func now() -> Timestamp { base.now().advanced(bySeconds: shift.withLock { $0 }) }
    func uptime() -> Duration { base.uptime() }
    func sleep(for duration: Duration) async throws { try await base.sleep(for: duration) }
}
