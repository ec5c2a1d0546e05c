internal import Logging
internal import UbiquityCore
internal import UbiquitySystem

/// Thrown for a sign-in that comes too soon after failed ones.
struct SlowedSignIn: Error {
    /// Until the next attempt.
    var seconds: Int

    var error: UbiquityError {
        UbiquityError(
            .tooManyRequests, "too many failed sign-ins: the next attempt is possible in \(seconds) s",
            remedy: "check the token; a device that is signed in is not affected")
    }
}

/// Slows down clients that try tokens, per address and per account name. Nobody is locked out for ever.
///
/// A few failures are free. After that every failure doubles the pause until the next attempt, up to a minute. A
/// quarter of an hour without a failure ends that.
///
/// A token that was accepted before is not slowed down. So an attacker cannot keep the devices behind the same address
/// from their documents.
final class FailedSignIns: Sendable {
    private enum Key: Hashable {
        /// The network of an address (`InternetAddress.network`).
        case network([UInt8])
        case account(String)
    }

    private struct Failures {
        var count = 0
        var last = Duration.zero

        /// When the next attempt is possible.
        func next(free: Int) -> Duration {
            guard count > free else { return last }
            let pause = Duration.seconds(1 << min(count - free - 1, 10))
            return last + min(pause, ServerLimits.longestSignInPause)
        }
    }

    private struct State {
        var failures: [Key: Failures] = [:]
        /// Hashes of tokens that were accepted. Each process seeds them differently.
        var accepted: Set<Int> = []
    }

    private let state = Lock(State())
    private let free: Int
    private let uptime: @Sendable () -> Duration

    /// - Parameters:
    ///   - free: failures before the next attempt must wait.
    ///   - uptime: a clock that is never set.
    init(free: Int, uptime: @escaping @Sendable () -> Duration) {
        self.free = free
        self.uptime = uptime
    }

    /// The origin of an attempt. Over the Unix socket it has no address, and is not slowed down.
    struct Origin: Sendable {
        var address: String?
        /// The account that the client names, if it does.
        var account: String?

    }

    private static func keys(of origin: Origin) -> [Key] {
        guard let address = origin.address.flatMap({ InternetAddress($0) }) else { return [] }
        return [.network(address.network)] + (origin.account.map { [.account($0)] } ?? [])
    }

    /// Throws `SlowedSignIn` if an attempt from there must wait.
    func admit(_ origin: Origin, token: String) throws {
        let now = uptime(), keys = Self.keys(of: origin)
        let wait = state.withLock { state -> Duration in
            guard !state.accepted.contains(token.hashValue) else { return .zero }
            return keys.compactMap { state.failures[$0] }.map { $0.next(free: free) - now }.max() ?? .zero
        }
        guard wait > .zero else { return }
        throw SlowedSignIn(seconds: Int(wait.components.seconds) + 1)
    }

    func accept(token: String) {
        state.withLock { state in
            if state.accepted.count >= ServerLimits.rememberedSignIns { state.accepted.removeAll() }
            state.accepted.insert(token.hashValue)
        }
    }

    /// Counts a failed attempt, and logs it with its address.
    func fail(_ origin: Origin, logger: Logger) {
        let now = uptime(), keys = Self.keys(of: origin)
        let count = state.withLock { state -> Int in
            if state.failures.count >= ServerLimits.rememberedSignIns { Self.forgetOld(&state, now) }
            for key in keys {
                var failures = state.failures[key] ?? Failures()
                if now - failures.last > ServerLimits.signInMemory { failures.count = 0 }
                failures.count += 1
                failures.last = now
                state.failures[key] = failures
            }
            return keys.compactMap { state.failures[$0]?.count }.max() ?? 1
        }
        logger.notice(
            "failed sign-in", metadata: [
                "address": "\(origin.address ?? "the cloud's socket")",
                "account": "\(origin.account.map { String($0.prefix(64)) } ?? "not named")", "failures": "\(count)",
            ])
    }

    private static func forgetOld(_ state: inout State, _ now: Duration) {
        state.failures = state.failures.filter { now - $0.value.last <= ServerLimits.signInMemory }
        guard state.failures.count >= ServerLimits.rememberedSignIns else { return }
        // Too many at the same time: only those with the most failures are remembered.
        let kept = state.failures.sorted { $0.value.count > $1.value.count }.prefix(ServerLimits.rememberedSignIns / 2)
        state.failures = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }
}
