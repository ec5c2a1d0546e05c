internal import Logging
internal import NIOCore
internal import UbiquitySystem

/// Limits the connections per address, so that one host cannot use up all connections of the server.
///
/// An IPv6 network counts as one address. Connections through the Unix socket are not counted.
final class AddressLimit: Sendable {
    private struct State {
        var open: [[UInt8]: Int] = [:]
        /// Addresses at their limit that have been logged.
        var logged: Set<[UInt8]> = []
    }

    private let limit: Int
    private let sparesLoopback: Bool
    private let state = Lock(State())

    init(_ rules: ConnectionRules) {
        limit = rules.connectionsPerAddress
        sparesLoopback = rules.sparesLoopback
    }

    /// Counts a connection until it closes.
    /// - Returns: false if its address is at the limit: then the caller must close the connection.
    func admit(_ channel: any Channel, logger: Logger) -> Bool {
        guard let text = channel.remoteAddress?.ipAddress, let address = InternetAddress(text),
            !(sparesLoopback && address.isLoopback)
        else { return true }
        let network = address.network
        let (isAdmitted, isFirst) = state.withLock { state in
            guard state.open[network, default: 0] < limit else { return (false, state.logged.insert(network).inserted) }
            state.open[network, default: 0] += 1
            return (true, false)
        }
        if isFirst {
            logger.warning(
                "an address has reached its connection limit; further connections are closed",
                metadata: ["address": "\(text)", "limit": "\(limit)"])
        }
        if isAdmitted { channel.closeFuture.whenComplete { _ in self.leave(network) } }
        return isAdmitted
    }

    var count: Int { state.withLock { $0.open.values.reduce(0, +) } }

    private func leave(_ network: [UInt8]) {
        state.withLock { state in
            let left = state.open[network, default: 1] - 1
            state.open[network] = left == 0 ? nil : left
            if left < limit / 2 { state.logged.remove(network) }
        }
    }
}
