package import HummingbirdCore
package import Logging
package import NIOCore
internal import UbiquitySystem

/// Connections of one server, from when they are accepted.
///
/// One that comes while the server ends is let go of on its way to whoever would have served it. NIO traps when the
/// writer of a connection goes before it has been finished (apple/swift-nio issues 2637 and 2813), and nobody closes
/// the connection. So each is kept until it is closed, and who is not served when the server ends is closed.
package final class Arrivals: Sendable {
    private struct State {
        /// Accepted, and not handed to anybody yet.
        var waiting: [ObjectIdentifier: any Channel] = [:]
        var hasEnded = false
    }
    private let state = Lock(State())

    package init() {}

    /// Those who wait to be served.
    var count: Int { state.withLock { $0.waiting.count } }

    fileprivate func add(_ value: some ServerChildChannelValue) {
        let channel = value.channel
        let isLate = state.withLock { state in
            if !state.hasEnded { state.waiting[ObjectIdentifier(channel)] = channel }
            return state.hasEnded
        }
        // A channel that has closed has finished its writer.
        channel.closeFuture.whenComplete { _ in
            withExtendedLifetime(value) { self.serve(value) }
        }
        if isLate { channel.close(promise: nil) }
    }

    fileprivate func serve(_ value: some ServerChildChannelValue) {
        state.withLock { _ = $0.waiting.removeValue(forKey: ObjectIdentifier(value.channel)) }
    }

    /// Nobody is served any more: closes those who wait, and those who come from now on. The server's run has ended.
    package func end() {
        let waiting = state.withLock { state in
            state.hasEnded = true
            defer { state.waiting = [:] }
            return state.waiting.values
        }
        for channel in waiting { channel.close(promise: nil) }
    }
}

/// Connections that are kept until they are closed.
package struct KeptChannel<Served: ServerChildChannel>: ServerChildChannel {
    package typealias Value = Served.Value

    private let served: Served
    private let arrivals: Arrivals

    package init(_ served: Served, _ arrivals: Arrivals) {
        self.served = served
        self.arrivals = arrivals
    }

    package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        served.setup(channel: channel, logger: logger).map { value in
            arrivals.add(value)
            return value
        }
    }

    package func handle(value: Value, logger: Logger) async {
        arrivals.serve(value)
        await served.handle(value: value, logger: logger)
    }
}
