/// Limits of the arbiter.
package enum ArbiterLimits {
    /// Default time for a presenter's answer.
    package static let answerTime: Duration = .seconds(10)
    /// Default maximum wait for a claim.
    package static let waitingTime: Duration = .seconds(120)
    /// How long a client's writing claim waits for programs that only read. They cannot be asked to close a file, and a
    /// viewer left open must not block saves for ever.
    package static let readerPatience: Duration = .seconds(10)
    /// How long a suspected deadlock of two clients, whose claims do not tell that they belong together, may last
    /// before it is broken.
    package static let suspicionTime: Duration = .seconds(5)
    /// Clients at one time: a desktop has some dozens of programs.
    package static let clients = 1024
    /// Presenters of one client: a program that shows a large folder item by item.
    package static let presentersPerClient = 20_000
    /// Items in one claim.
    package static let intents = 10_000
    /// Claims of one client, granted or waiting.
    package static let claimsPerClient = 20_000
    /// Waiting claims of all owners together.
    package static let waitingClaims = 50_000
}
