internal import NIOCore
internal import UbiquityCore
internal import UbiquitySystem

/// The connections and event streams of each token. They end when the token is revoked.
///
/// A request enters before it reads anything. So a token that is revoked meanwhile is either refused here, or its
/// connection is in the table and is closed.
final class TokenSessions: Sendable {
    private struct State {
        var revoked: Set<Int64> = []
        var channels: [Int64: [ObjectIdentifier: any Channel]] = [:]
        var streams: [Int64: [Int: @Sendable () -> Void]] = [:]
        var lastStream = 0
    }

    private let state = Lock(State())

    /// Throws `.signedOut` if the token was revoked.
    func enter(_ token: Int64, _ channel: any Channel) throws {
        let key = ObjectIdentifier(channel)
        let isNew = try state.withLock { state in
            guard !state.revoked.contains(token) else { throw Self.error }
            return state.channels[token, default: [:]].updateValue(channel, forKey: key) == nil
        }
        guard isNew else { return }
        channel.closeFuture.whenComplete { _ in self.leave(token, key) }
    }

    private func leave(_ token: Int64, _ key: ObjectIdentifier) {
        state.withLock { state in
            state.channels[token]?[key] = nil
            if state.channels[token]?.isEmpty == true { state.channels[token] = nil }
        }
    }

    /// Calls `action` when the token is revoked, or at once if it was. Pass the result to `endStream`.
    func beginStream(of token: Int64?, _ action: @escaping @Sendable () -> Void) -> Int? {
        guard let token else { return nil }
        let number = state.withLock { state -> Int? in
            guard !state.revoked.contains(token) else { return nil }
            state.lastStream += 1
            state.streams[token, default: [:]][state.lastStream] = action
            return state.lastStream
        }
        if number == nil { action() }
        return number
    }

    func endStream(_ number: Int?, of token: Int64?) {
        guard let number, let token else { return }
        state.withLock { state in
            state.streams[token]?[number] = nil
            if state.streams[token]?.isEmpty == true { state.streams[token] = nil }
        }
    }

    /// Ends the streams of a token, and closes its connections a moment later, so that the reason still arrives.
    ///
    /// A proxy may send requests of other tokens over the same connection. Their clients repeat them.
    func revoke(_ token: Int64) {
        let (streams, channels) = state.withLock { state in
            state.revoked.insert(token)
            return (
                Array((state.streams.removeValue(forKey: token) ?? [:]).values),
                Array((state.channels[token] ?? [:]).values)
            )
        }
        for stream in streams { stream() }
        for channel in channels {
            channel.eventLoop.scheduleTask(in: ServerLimits.revocationGrace) { channel.close(promise: nil) }
        }
    }

    /// Without the token's name, which only the cloud knows.
    static let error = UbiquityError(
        .signedOut, "this device's token was revoked",
        remedy: "ask the account's owner for a new one, and sign in with 'ubiquity login'")
}
