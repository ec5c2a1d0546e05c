internal import UbiquityCore
internal import UbiquitySystem

/// A signed-in browser.
struct WebSession: Hashable, Sendable {
    /// The token of the sign-in. Every request checks it again, so the session ends with its token.
    let token: String
    let account: String
    /// A secret that every form of the session's pages has. Another site's page cannot read it.
    let formToken: String
    /// The device of its changes.
    let device: DeviceID
}

/// The sessions of browsers, in memory: a new start of the cloud ends them all.
///
/// A session has the name of 256 random bits, in a cookie. It ends by signing out, when it was not used for a while,
/// after a week, and when its token is revoked.
final class WebSessions: Sendable {
    private struct Entry {
        let session: WebSession
        let number: Int64?
        let began: Duration
        var used: Duration
    }

    private let state = Lock([String: Entry]())
    private let random: any RandomSource
    private let uptime: @Sendable () -> Duration
    /// The secret of the forms of the cloud's owner, who has no session.
    let ownerFormToken: String
    let ownerDevice: DeviceID

    /// - Parameter uptime: a clock that is never set.
    init(random: any RandomSource, uptime: @escaping @Sendable () -> Duration) {
        self.random = random
        self.uptime = uptime
        ownerFormToken = Self.secret(random)
        ownerDevice = DeviceID(high: random.next(), low: random.next())
    }

    /// - Parameter number: of the token.
    /// - Returns: the value of the cookie.
    func begin(token: String, number: Int64?, account: String) -> String {
        let name = Self.secret(random), now = uptime()
        let session = WebSession(
            token: token, account: account, formToken: Self.secret(random),
            device: DeviceID(high: random.next(), low: random.next()))
        state.withLock { entries in
            entries = entries.filter { Self.isAlive($0.value, now) }
            let own = entries.filter { $0.value.session.account == account }
            if own.count >= WebLimits.sessionsPerAccount { Self.removeOldest(own, from: &entries) }
            if entries.count >= WebLimits.sessions { Self.removeOldest(entries, from: &entries) }
            entries[name] = Entry(session: session, number: number, began: now, used: now)
        }
        return name
    }

    /// The session of a cookie. Nil if it has ended.
    func find(_ name: String) -> WebSession? {
        let now = uptime()
        return state.withLock { entries in
            guard var entry = entries[name] else { return nil }
            guard Self.isAlive(entry, now) else {
                entries[name] = nil
                return nil
            }
            entry.used = now
            entries[name] = entry
            return entry.session
        }
    }

    func end(_ name: String) { state.withLock { $0[name] = nil } }

    /// Ends the sessions of a token.
    func revoke(_ number: Int64) {
        state.withLock { entries in entries = entries.filter { $0.value.number != number } }
    }

    var count: Int { state.withLock { $0.count } }

    private static func isAlive(_ entry: Entry, _ now: Duration) -> Bool {
        now - entry.used < WebLimits.idleSession && now - entry.began < WebLimits.longestSession
    }

    private static func removeOldest(_ some: [String: Entry], from entries: inout [String: Entry]) {
        guard let oldest = some.min(by: { $0.value.used < $1.value.used }) else { return }
        entries[oldest.key] = nil
    }

    private static func secret(_ random: any RandomSource) -> String {
        Hex.encode((0..<4).flatMap { _ -> [UInt8] in
            let number = random.next()
            return stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
        })
    }
}
