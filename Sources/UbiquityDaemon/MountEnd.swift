import UbiquityCore
import UbiquitySystem

/// The moment when a mount has ended: its session with the kernel is over, or nobody can be waited for any longer.
///
/// The kernel keeps the connection as long as any mount namespace (a container, a sandbox) has a copy of the mount, and
/// cuts it by force only where its control file system is mounted. The death of this process cuts it in any case.
final class MountEnd: Sendable {
    private let outcomes: AsyncStream<Result<Void, any Error>>
    private let source: AsyncStream<Result<Void, any Error>>.Continuation

    init() { (outcomes, source) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1)) }

    /// The first outcome counts.
    func note(_ outcome: Result<Void, any Error>) { source.yield(outcome) }

    /// Counts as ended after that time, whatever the kernel says.
    func force(after limit: Duration) {
        Task { [self] in
            // It is never cancelled; only then would the sleep fail.
            try? await Sleepers.shared.sleep(for: limit)
            note(.success(()))
        }
    }

    /// To be called once.
    func wait() async throws {
        for await outcome in outcomes { return try outcome.get() }
    }
}
