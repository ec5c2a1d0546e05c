internal import NIOCore

/// Limits per connection and per address.
struct ConnectionRules: Sendable {
    var headerTime = ServerLimits.headerTime
    var bodySilence = ServerLimits.bodySilence
    var answerSilence = ServerLimits.answerSilence
    var connectionsPerAddress = ServerLimits.connectionsPerAddress
    /// Failed sign-ins of an address before the next attempt must wait.
    var freeSignInFailures = ServerLimits.freeSignInFailures
    /// The clock of the pauses after failed sign-ins. It is never set.
    var uptime: @Sendable () -> Duration = { [start = ContinuousClock.now] in start.duration(to: .now) }
    /// Whether connections from this machine are not counted: a local proxy has one address for all its clients.
    var sparesLoopback = true
}
