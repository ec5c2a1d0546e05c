import Synchronization

/// Counts the bytes of bodies in both directions, for `ubiquity status`.
final class TrafficCounter: Sendable {
    private let sentBytes = Atomic<Int64>(0)
    private let receivedBytes = Atomic<Int64>(0)

    func addSent(_ count: Int) { sentBytes.add(Int64(count), ordering: .relaxed) }
    func addReceived(_ count: Int) { receivedBytes.add(Int64(count), ordering: .relaxed) }

    var sent: Int64 { sentBytes.load(ordering: .relaxed) }
    var received: Int64 { receivedBytes.load(ordering: .relaxed) }
}
