internal import NIOCore

/// Limits of a server for one connection and for one address.
struct ConnectionRules: Sendable {
    var headerTime = ServerLimits.headerTime
    var bodySilence = ServerLimits.bodySilence
    var answerSilence = ServerLimits.answerSilence
    var connectionsPerAddress = ServerLimits.connectionsPerAddress
    /// Connections from this machine are not counted: a proxy on it has one address for all its clients.
    var sparesLoopback = true
}
