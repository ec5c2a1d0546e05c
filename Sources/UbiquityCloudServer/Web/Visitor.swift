import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore

/// The sender of a page's request.
struct Visitor: Sendable {
    /// The account of the shown pages, with the rights to it.
    let holder: TokenHolder
    /// The cloud's owner, at its socket and without a token.
    let isOwner: Bool
    /// The secret of the forms. Nil for a request with a token of its own, which no other site can send.
    let formToken: String?
    /// The device of the changes.
    let device: DeviceID

    var account: String { holder.account }
    var mayWrite: Bool { !holder.rights.isReadOnly }
    /// Whether it may manage tokens, devices and links.
    var hasAllRights: Bool { holder.rights == .all }
    var paths: WebPaths { WebPaths(account: isOwner ? account : nil) }

    /// The hidden field of every form.
    var formField: HTML {
        formToken.map { "<input type=\"hidden\" name=\"\(Self.fieldName)\" value=\"\($0)\">" } ?? .empty
    }

    static let fieldName = "form-token"

    /// Throws `.accessDenied` unless the form comes from a page of this visitor.
    func requireOwnForm(_ given: String?) throws(UbiquityError) {
        guard let formToken else { return }
        let (own, other) = (Array(formToken.utf8), Array((given ?? "").utf8))
        // Every byte is compared, so that the time tells nothing about the secret.
        var difference = own.count == other.count ? UInt8(0) : 1
        for (left, right) in zip(own, other) { difference |= left ^ right }
        guard difference == 0 else {
            throw UbiquityError(
                .accessDenied, "this form is not from a page of your session, or the session has ended",
                remedy: "open the page again and repeat it")
        }
    }
}

/// Finds the visitor of a request: by its session's cookie, by a token of its own, or at the cloud's socket.
struct Reception: Sendable {
    let access: CloudAccess
    let sessions: WebSessions

    init(access: CloudAccess, sessions: WebSessions) {
        self.access = access
        self.sessions = sessions
        access.host.cloud?.revocations.observe { [sessions] in sessions.revoke($0) }
    }

    /// Throws `.signedOut` if the request has neither a session nor a token.
    func visitor(_ request: Request, _ context: CloudContext) async throws -> Visitor {
        if try request.bearer() != nil {
            let holder = try await access.holder(request, context)
            return Visitor(holder: holder, isOwner: false, formToken: nil, device: sessions.ownerDevice)
        }
        if let name = cookie(request, context), let session = sessions.find(name) {
            do {
                let holder = try await access.holder(request, context, login: (session.account, session.token))
                return Visitor(holder: holder, isOwner: false, formToken: session.formToken, device: session.device)
            } catch let error as UbiquityError where error.code == .signedOut {
                sessions.end(name)
                throw error
            }
        }
        guard context.isLocal else {
            throw UbiquityError(.signedOut, "sign in to see this page")
        }
        let account = request.uri.queryParameters["account"].map(String.init) ?? CloudHost.localAccount
        return Visitor(
            holder: TokenHolder(account: account), isOwner: true, formToken: sessions.ownerFormToken,
            device: sessions.ownerDevice)
    }

    /// Signs a browser in.
    /// - Returns: the field `Set-Cookie`.
    func signIn(account: String, token: String, _ request: Request, _ context: CloudContext) async throws -> String {
        let holder = try await access.holder(request, context, login: (account, token))
        guard account.isEmpty || holder.account == account else {
            throw UbiquityError(.signedOut, "this token is not of the account \"\(account)\"")
        }
        await access.host.cloud?.devices.record(nil, of: holder)
        let name = sessions.begin(token: token, number: holder.token, account: holder.account)
        return setCookie(name, maximumAge: WebLimits.longestSession.components.seconds, request, context)
    }

    /// - Returns: the field `Set-Cookie` that removes the cookie.
    func signOut(_ request: Request, _ context: CloudContext) -> String {
        if let name = cookie(request, context) { sessions.end(name) }
        return setCookie("", maximumAge: 0, request, context)
    }

    // MARK: The cookie

    private func isSecure(_ request: Request, _ context: CloudContext) -> Bool {
        // A proxy that ends TLS says so. A client that says so itself only makes its own cookie stricter.
        context.isSecure || request.header("x-forwarded-proto")?.lowercased() == "https"
    }

    /// A cookie with the prefix is refused by the browser unless it came over TLS and belongs to this host alone.
    private func cookieName(_ request: Request, _ context: CloudContext) -> String {
        isSecure(request, context) ? "__Host-ubiquity" : "ubiquity"
    }

    private func cookie(_ request: Request, _ context: CloudContext) -> String? {
        let wanted = cookieName(request, context)
        for field in request.headers where field.name.canonicalName == "cookie" {
            for pair in field.value.split(separator: ";") {
                let parts = pair.split(separator: "=", maxSplits: 1)
                if parts.count == 2, parts[0].drop(while: { $0 == " " }) == wanted { return String(parts[1]) }
            }
        }
        return nil
    }

    private func setCookie(
        _ value: String, maximumAge: Int64, _ request: Request, _ context: CloudContext
    ) -> String {
        "\(cookieName(request, context))=\(value); Path=/; Max-Age=\(maximumAge); HttpOnly; SameSite=Strict"
            + (isSecure(request, context) ? "; Secure" : "")
    }
}
