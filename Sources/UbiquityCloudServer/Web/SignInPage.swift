import Hummingbird
internal import UbiquityCore
internal import UbiquityWire

/// Signing in and out.
struct SignInPage: Sendable {
    let reception: Reception

    func add(to router: Router<CloudContext>) {
        router.get("sign-in") { request, _ in
            WebAnswer.page(Self.page(next: WebForm.next(of: request), account: "", reason: nil))
        }
        router.post("sign-in", use: signIn)
        router.post("sign-out", use: signOut)
    }

    /// No form token is needed: a foreign site can at most sign its visitor in with a token that it knows, and the
    /// page shows the name of the account. The origin of the request is checked nevertheless.
    @Sendable private func signIn(_ request: Request, _ context: CloudContext) async throws -> Response {
        let form = try await request.webForm(), account = form["account"] ?? ""
        let next = form["next"].flatMap { WebPaths.isLocal($0) ? $0 : nil }
        do {
            try request.requireOwnOrigin()
            guard let token = form["token"]?.filter({ !$0.isWhitespace }), !token.isEmpty else {
                throw UbiquityError(.signedOut, "enter the account's token")
            }
            let cookie = try await reception.signIn(account: account, token: token, request, context)
            var response = WebAnswer.seeOther(next ?? "/")
            response.headers[.setCookie] = cookie
            return response
        } catch {
            let (status, failure) = Failures.describe(error, request: request)
            Failures.log(error, status: status, of: request, logger: context.logger)
            let page = Self.page(next: next, account: account, reason: failure.error)
            var response = WebAnswer.page(page, status: .init(code: status))
            if let slowed = error as? SlowedSignIn { response.headers[.retryAfter] = "\(slowed.seconds)" }
            return response
        }
    }

    @Sendable private func signOut(_ request: Request, _ context: CloudContext) async throws -> Response {
        try request.requireOwnOrigin()
        let form = try await request.webForm()
        // Without a session there is nothing to end, and no secret to check.
        if let visitor = try? await reception.visitor(request, context) {
            try visitor.requireOwnForm(form[Visitor.fieldName])
        }
        var response = WebAnswer.seeOther("/sign-in")
        response.headers[.setCookie] = reception.signOut(request, context)
        return response
    }

    /// - Parameter next: the page to show after signing in.
    static func page(next: String?, account: String, reason: UbiquityError?) -> HTML {
        let failure: HTML? = reason.map { error in
            "<div class=\"failure\" role=\"alert\"><p data-reason>\(error.message)</p></div>"
        }
        return PageFrame.bare(
            "Sign in",
            """
            <form class="card" method="post" action="/sign-in">
            <h1>Sign in</h1>
            \(failure)
            \(next.map { "<input type=\"hidden\" name=\"next\" value=\"\($0)\">" as HTML })
            <label class="field">Account
            <input name="account" value="\(account)" autocomplete="username" autocapitalize="none" spellcheck="false"
            maxlength="64"></label>
            <label class="field">Token
            <input name="token" type="password" autocomplete="current-password" required maxlength="200">
            <small>From <code>ubiquity account create</code> or \
            <code>ubiquity account token create</code></small></label>
            <button class="primary">Sign in</button>
            </form>
            <p class="soft">The page keeps one cookie, which ends with the session.</p>
            """)
    }
}

extension WebForm {
    /// The page to show after signing in, as the query names it.
    static func next(of request: Request) -> String? {
        let form = try? WebForm(encoded: request.uri.query ?? "")
        return form?["next"].flatMap { WebPaths.isLocal($0) ? $0 : nil }
    }
}

extension Request {
    /// The query of the address.
    func webQuery() throws -> WebForm { try WebForm(encoded: uri.query ?? "") }

    /// The fields of a form without files.
    func webForm() async throws -> WebForm {
        let type = header("content-type")?.split(separator: ";").first.map { $0.lowercased() }
        guard type == nil || type == "application/x-www-form-urlencoded" else {
            throw UbiquityError(.notSupported, "this page takes forms only")
        }
        let bytes = try await bytes(limit: WebLimits.formBytes)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UbiquityError(.invalid, "the form is not UTF-8")
        }
        return try WebForm(encoded: text)
    }

    /// Throws `.accessDenied` if the browser says that another site sent the request. The field `Origin` does not tell:
    /// behind many proxies the cloud does not know its own name.
    func requireOwnOrigin() throws {
        let site = header("sec-fetch-site")
        guard site != "cross-site", site != "same-site" else {
            throw UbiquityError(.accessDenied, "another site sent this request", remedy: "use the forms of this page")
        }
    }
}
