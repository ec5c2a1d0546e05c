/// The clocks used by all code that depends on time: the machine's, or a simulator's.
package protocol Timekeeper: Sendable {
    /// The wall clock. It may jump.
    func now() -> Timestamp
    /// Time since a fixed moment; it never goes back.
    func uptime() -> Duration
    /// Waits. Throws `CancellationError` when the task is cancelled.
    func sleep(for duration: Duration) async throws
}

extension Duration {
    /// Nanoseconds, clamped to 0 … `Int64.max`.
    package var wholeNanoseconds: Int64 {
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        let (scaled, isTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isStillTooLong) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        return isTooLong || isStillTooLong ? .max : sum
    }
}

/// The source of randomness used by all code that needs it.
package protocol RandomSource: Sendable {
    func next() -> UInt64
}

/// Adapts a `RandomSource` to the standard library's generators.
package struct SourcedGenerator: RandomNumberGenerator {
    private let source: any RandomSource
    package init(_ source: any RandomSource) { self.source = source }
    package mutating func next() -> UInt64 { source.next() }
}
