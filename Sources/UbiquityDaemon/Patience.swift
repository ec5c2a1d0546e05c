import UbiquityCore
import UbiquitySystem

/// How long a command waits for what another device has not sent: one time for all it was asked for, counted from the
/// last of them that came.
final class Patience: Sendable {
    private static let limit = Duration.seconds(60)

    private let timekeeper: any Timekeeper
    private let end: Lock<Duration>

    init(_ timekeeper: any Timekeeper) {
        self.timekeeper = timekeeper
        end = Lock(timekeeper.uptime() + Self.limit)
    }

    /// Not below zero.
    var left: Duration { max(.zero, end.withLock { $0 } - timekeeper.uptime()) }

    func renew() { end.withLock { $0 = timekeeper.uptime() + Self.limit } }
}
