package import HummingbirdCore
package import Logging
package import NIOCore
internal import UbiquitySystem

/// All connections of one server, from acceptance on.
///
/// A connection accepted while the server ends is dropped before its handler runs. NIO traps when a connection's writer
/// is released before it is finished (apple/swift-nio issues 2637 and 2813), and nothing closes the connection. So each
/// connection is kept until it is closed, and those without a handler are closed when the server ends.
package final class Arrivals: Sendable {
    private struct State {
        /// Accepted, and without a handler yet.
        var waiting: [ObjectIdentifier: any Channel] = [:]
        var hasEnded = false
    }
    private let state = Lock(State())

    package init() {}

    /// Number of connections that wait for their handler.
    var count: Int { state.withLock { $0.waiting.count } }

    fileprivate func add(_ value: some ServerChildChannelValue) {
        let channel = value.channel
        let isLate = state.withLock { state in
            if !state.hasEnded { state.waiting[ObjectIdentifier(channel)] = channel }
            return state.hasEnded
        }
        // A closed channel has finished its writer.
        channel.closeFuture.whenComplete { _ in
            withExtendedLifetime(value) { self.serve(value) }
        }
        if isLate { channel.close(promise: nil) }
    }

    fileprivate func serve(_ value: some ServerChildChannelValue) {
        state.withLock { _ = $0.waiting.removeValue(forKey: ObjectIdentifier(value.channel)) }
    }

    /// Closes the waiting connections, and those that come later. Call it when the server's run has ended.
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
