internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// The codes of sign-ins in the memory of the cloud's process. A restart of the cloud ends all of them.
final class PendingSignIns: Sendable {
    enum Decision {
        case none, refused
        case approved(TokenRequest)
        /// One request of the device creates the token; others wait.
        case creating(TokenRequest)
        case collected(NewToken)

        var isOpen: Bool { if case .none = self { true } else { false } }
    }

    struct Entry {
        var code: String
        var secret: String
        var account: String
        var device: String
        var address: String?
        /// The network of the address (`InternetAddress.network`).
        var network: [UInt8]
        var requested: Timestamp
        var decision = Decision.none

        var expires: Timestamp { requested.advanced(bySeconds: CloudLimits.signInCodeAge) }

        var shown: PendingSignIn {
            PendingSignIn(
                code: code, account: account, device: device, address: address, requested: requested.inSeconds,
                expires: expires.inSeconds)
        }
    }

    private struct Mistakes {
        var count = 0
        var first: Timestamp
    }

    private struct State {
        /// By code.
        var entries: [String: Entry] = [:]
        /// Unknown codes that the users of an account entered.
        var mistakes: [String: Mistakes] = [:]

        mutating func forgetOld(_ now: Timestamp) {
            // A clock that was set back ends the codes too.
            entries = entries.filter { $0.value.requested <= now && now < $0.value.expires }
            mistakes = mistakes.filter {
                $0.value.first <= now && now < $0.value.first.advanced(bySeconds: CloudLimits.signInCodeAge)
            }
        }
    }

    private let state = Lock(State())

    /// Adds a code. Throws `.tooManyRequests`.
    func add(_ entry: Entry) throws {
        try state.withLock { state in
            state.forgetOld(entry.requested)
            let entries = state.entries.values
            let ofAccount = entries.count { $0.account == entry.account && $0.decision.isOpen }
            let ofNetwork = entries.count { $0.network == entry.network && $0.decision.isOpen }
            guard ofAccount < CloudLimits.pendingSignInsOfAnAccount, ofNetwork < CloudLimits.pendingSignInsOfANetwork,
                entries.count < CloudLimits.pendingSignIns, state.entries[entry.code] == nil
            else {
                throw UbiquityError(
                    .tooManyRequests, "too many sign-ins by code wait for a confirmation",
                    remedy: "confirm or refuse some, wait ten minutes, or sign in with --token-file")
            }
            state.entries[entry.code] = entry
        }
    }

    /// The codes without a decision, oldest first; nil for those of all accounts.
    func open(of account: String?, _ now: Timestamp) -> [Entry] {
        state.withLock { state in
            state.forgetOld(now)
            return state.entries.values.filter { $0.decision.isOpen && (account == nil || $0.account == account) }
        }.sorted { ($0.requested.nanoseconds, $0.code) < ($1.requested.nanoseconds, $1.code) }
    }

    /// The undecided entry of a code. Unknown codes of an account's user are counted.
    /// - Throws: `.notFound`; `.tooManyRequests` after too many unknown codes.
    func entry(_ code: String, of account: String?, _ now: Timestamp) throws -> Entry {
        try state.withLock { state in
            state.forgetOld(now)
            let key = account ?? ""
            guard account == nil || state.mistakes[key]?.count ?? 0 < CloudLimits.wrongSignInCodes else {
                throw UbiquityError(
                    .tooManyRequests, "too many unknown codes were entered for this account",
                    remedy: "wait ten minutes")
            }
            if let entry = state.entries[code], entry.decision.isOpen, account == nil || entry.account == account {
                return entry
            }
            if account != nil { state.mistakes[key, default: Mistakes(first: now)].count += 1 }
            throw UbiquityError(
                .notFound, "no sign-in waits with this code", at: code,
                remedy: "a code is valid for ten minutes and once; run 'ubiquity login' with --code again")
        }
    }

    /// Records the decision about a code. Another decision may have come first: throws `.notFound`.
    func decide(_ decision: Decision, _ code: String) throws {
        try state.withLock { state in
            guard state.entries[code]?.decision.isOpen == true else {
                throw UbiquityError(.notFound, "no sign-in waits with this code any more", at: code)
            }
            state.entries[code]?.decision = decision
        }
    }

    /// The next step of the device with this secret.
    enum Next {
        case waits
        /// The caller creates the token, and calls `created` or `failed`.
        case creates(Entry, TokenRequest)
        case has(NewToken)
    }

    /// Throws `.notFound` for an unknown or expired secret, `.accessDenied` after a refusal.
    func next(secret: String, _ now: Timestamp) throws -> Next {
        try state.withLock { state in
            state.forgetOld(now)
            guard let entry = state.entries.values.first(where: { $0.secret == secret }) else {
                throw UbiquityError(
                    .notFound, "the code expired before it was confirmed",
                    remedy: "run 'ubiquity login' with --code again")
            }
            switch entry.decision {
            case .none, .creating: return .waits
            case .refused:
                throw UbiquityError(.accessDenied, "the sign-in was refused by a user of the account")
            case .collected(let token): return .has(token)
            case .approved(let request):
                state.entries[entry.code]?.decision = .creating(request)
                return .creates(entry, request)
            }
        }
    }

    func created(_ token: NewToken, _ code: String) {
        state.withLock { $0.entries[code]?.decision = .collected(token) }
    }

    /// The device may ask again.
    func failed(_ request: TokenRequest, _ code: String) {
        state.withLock { $0.entries[code]?.decision = .approved(request) }
    }
}
