import UbiquityCore
import UbiquitySystem

/// The end of a mount: its session with the kernel is over, or the wait for it has timed out.
///
/// The kernel keeps the connection as long as any mount namespace (a container, a sandbox) has a copy of the mount. It
/// can be cut by force only where fusectl is mounted. The end of this process cuts it in any case.
final class MountEnd: Sendable {
    private let outcomes: AsyncStream<Result<Void, any Error>>
    private let source: AsyncStream<Result<Void, any Error>>.Continuation

    init() { (outcomes, source) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1)) }

    /// The first outcome counts.
    func note(_ outcome: Result<Void, any Error>) { source.yield(outcome) }

    /// Reports a normal end after that time, whatever the kernel does.
    func force(after limit: Duration) {
        Task { [self] in
            // The task is never cancelled; only then would the sleep fail.
            try? await Sleepers.shared.sleep(for: limit)
            note(.success(()))
        }
    }

    /// Waits for the end. Call it once.
    func wait() async throws {
        for await outcome in outcomes { return try outcome.get() }
    }
}
