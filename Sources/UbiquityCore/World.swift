/// Time, as it reaches everything that decides by it: the machine's, or a simulator's.
package protocol Timekeeper: Sendable {
    /// The wall clock. It may jump.
    func now() -> Timestamp
    /// Time since some fixed moment; it only goes forward.
    func uptime() -> Duration
    /// Waits. Throws `CancellationError` when the task is cancelled.
    func sleep(for duration: Duration) async throws
}

extension Duration {
    /// Clamped to 0 and what can be counted.
    package var wholeNanoseconds: Int64 {
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        let (scaled, isTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isStillTooLong) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        return isTooLong || isStillTooLong ? .max : sum
    }
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
