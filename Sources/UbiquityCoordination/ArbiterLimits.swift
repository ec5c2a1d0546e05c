/// Bounds of the arbiter.
package enum ArbiterLimits {
    /// Time that a presenter has to answer, if it said nothing else (`design.md` section 8).
    package static let answerTime: Duration = .seconds(10)
    /// A claim waits at most that long, if it said nothing else.
    package static let waitingTime: Duration = .seconds(120)
    /// A client's writing claim waits that long for programs that only read: they cannot be asked to close a file, and
    /// a viewer left open must not keep documents from being saved for ever.
    package static let readerPatience: Duration = .seconds(10)
    /// Two clients that seem to wait for each other, but whose claims do not say that they belong together, are given
    /// that long to prove the opposite.
    package static let suspicionTime: Duration = .seconds(5)
    /// Clients at one time: a desktop has some dozens of programs.
    package static let clients = 1024
    /// Presenters of one client: a program that shows a large folder item by item.
    package static let presentersPerClient = 20_000
    /// Items in one claim.
    package static let intents = 10_000
    /// Claims of one client that are held or wait.
    package static let claimsPerClient = 20_000
    /// Claims that wait, of everyone together.
    package static let waitingClaims = 50_000
}
