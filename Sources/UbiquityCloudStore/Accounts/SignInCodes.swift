internal import Logging
internal import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// Sign-ins by code: a device shows a short code, and a user of the account confirms it elsewhere.
///
/// The device waits with a secret of its own. So the code alone gives nobody a token, and needs few digits. The token
/// is created when the device collects it.
package struct SignInCodes: Sendable {
    let cloud: Cloud

    private var now: Timestamp { cloud.timekeeper.now() }
    private var pending: PendingSignIns { cloud.pendingSignIns }

    /// Makes a code for a device. The answer does not tell whether the account exists.
    /// - Parameter address: where the request comes from; nil for the cloud's own socket.
    /// - Throws: `.tooManyRequests`, `.invalidName`.
    package func request(_ request: SignInRequest, from address: String?) throws -> SignInCode {
        guard ContainerID(request.account) != nil else {
            throw UbiquityError(.invalidName, "not a name for an account", at: request.account)
        }
        guard request.device.utf8.count <= MessageLimits.maximumDeviceNameLength else {
            throw UbiquityError(.nameTooLong, "the device's name is too long")
        }
        let code = newCode(), secret = AccountTokens.secret(cloud.random)
        try pending.add(
            PendingSignIns.Entry(
                code: code, secret: secret, account: request.account, device: request.device, address: address,
                network: address.flatMap { InternetAddress($0) }?.network ?? [], requested: now))
        cloud.logger.notice(
            "a device asks to sign in by code", metadata: [
                "account": "\(request.account)", "device": "\(request.device)",
                "address": "\(address ?? "the cloud's socket")",
            ])
        return SignInCode(
            code: code, secret: secret, expiresIn: CloudLimits.signInCodeAge, interval: CloudLimits.signInPollInterval)
    }

    /// The codes that wait for a decision, oldest first.
    /// - Parameter account: nil for those of all accounts.
    package func list(of account: String?) -> [PendingSignIn] { pending.open(of: account, now).map(\.shown) }

    /// Approves a code: its device gets a token with the rights of the decision.
    /// - Parameter account: the account of the approving user; nil for the cloud's owner, who may approve any code.
    /// - Throws: `.notFound`, `.tooManyRequests` after too many unknown codes, `.invalid`, `.invalidName`.
    package func approve(_ decision: SignInDecision, of account: String?) async throws -> PendingSignIn {
        let entry = try pending.entry(Self.plain(decision.code), of: account, now)
        let request = TokenRequest(
            name: Self.tokenName(entry.device), containers: decision.containers, readOnly: decision.readOnly)
        _ = try AccountTokens.rights(of: request)
        // The owner may approve a code of an account that does not exist.
        try await cloud.pool.run { [cloud] in _ = try cloud.read { try Cloud.requiredNumber(of: entry.account, $0) } }
        try pending.decide(.approved(request), entry.code)
        cloud.logger.notice(
            "a sign-in by code was approved",
            metadata: ["account": "\(entry.account)", "device": "\(entry.device)"])
        return entry.shown
    }

    /// Refuses a code: its device gets `.accessDenied`. Throws like `approve`.
    package func refuse(_ code: String, of account: String?) throws -> PendingSignIn {
        let entry = try pending.entry(Self.plain(code), of: account, now)
        try pending.decide(.refused, entry.code)
        return entry.shown
    }

    /// The token of the device with this secret; nil while its code waits for a decision. A repeated call gets the same
    /// token.
    /// - Throws: `.notFound` if the code expired, `.accessDenied` if it was refused.
    package func collect(_ secret: String) async throws -> NewToken? {
        switch try pending.next(secret: secret, now) {
        case .waits: return nil
        case .has(let token): return token
        case .creates(let entry, let request):
            do {
                let token = try await create(request, of: entry.account)
                pending.created(token, entry.code)
                return token
            } catch {
                pending.failed(request, entry.code)
                throw error
            }
        }
    }

    /// Creates the token. If its name is taken, it gets a number.
    private func create(_ request: TokenRequest, of account: String) async throws -> NewToken {
        var numbered = request
        for number in 2...Self.triedNames {
            do { return try await cloud.tokens.create(of: account, numbered) } catch let error as UbiquityError
                where error.code == .alreadyExists
            { numbered.name = request.name.map { "\($0) \(number)" } }
        }
        numbered.name = nil
        return try await cloud.tokens.create(of: account, numbered)
    }

    /// The name of the device, as far as it is a possible name for a token and leaves bytes for a number.
    private static func tokenName(_ device: String) -> String? {
        let printable = device.unicodeScalars.filter { $0.properties.generalCategory != .control }
        var name = String(String.UnicodeScalarView(printable))
        while name.utf8.count > CloudLimits.maximumTokenNameLength - 4 { name.removeLast() }
        return name.contains { !$0.isWhitespace } ? name : nil
    }

    private static let triedNames = 100

    // MARK: Codes

    /// Consonants that no other one looks like, and that make no words (RFC 8628, section 6.1).
    private static let letters = Array("BCDFGHJKLMNPQRSTVWXZ")

    private func newCode() -> String {
        // The remainder of 64 random bits favours no letter noticeably.
        Self.written(
            (0..<CloudLimits.signInCodeLength).map { _ in
                Self.letters[Int(cloud.random.next() % UInt64(Self.letters.count))]
            })
    }

    private static func written(_ letters: [Character]) -> String {
        let half = CloudLimits.signInCodeLength / 2
        return "\(String(letters.prefix(half)))-\(String(letters.dropFirst(half)))"
    }

    /// A code as it is stored, however the user writes it.
    private static func plain(_ code: String) -> String {
        written(code.uppercased().filter { $0.isLetter || $0.isNumber }.prefix(100).map { $0 })
    }
}
