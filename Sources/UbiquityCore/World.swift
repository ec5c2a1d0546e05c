/// Time, as it reaches everything that decides by it: the machine's, or a simulator's.
package protocol Timekeeper: Sendable {
    /// The wall clock. It may jump.
    func now() -> Timestamp
    /// Time since some fixed moment; it only goes forward.
    func uptime() -> Duration
    /// Waits. Throws `CancellationError` when the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// Randomness, as it reaches everything that draws from it.
package protocol RandomSource: Sendable {
    func next() -> UInt64
}

/// A `RandomSource` where the standard library wants a generator.
package struct SourcedGenerator: RandomNumberGenerator {
    private let source: any RandomSource
    package init(_ source: any RandomSource) { self.source = source }
    package mutating func next() -> UInt64 { source.next() }
}
