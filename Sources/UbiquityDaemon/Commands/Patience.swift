import UbiquityCore
import UbiquitySystem

/// How long a command waits for contents that another device has not uploaded: one time limit for all items, counted
/// from the last one that arrived.
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
