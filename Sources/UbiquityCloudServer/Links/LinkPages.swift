import Hummingbird
internal import Logging
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The pages of links, for visitors: one page with the name, the size and the time, and the content.
///
/// The pages work without script and without cookies. A password travels in a form, or as `Authorization: Basic`.
/// Guesses of secrets and of passwords are slowed down per address, and guesses of a password also per link.
struct LinkPages: Sendable {
    let access: CloudAccess
    let departures: Departures
    let guesses: FailedSignIns
    let downloads = AccountBudget(
        total: ServerLimits.linkDownloads, perAccount: ServerLimits.downloadsPerLink,
        refusal: "the cloud has too many downloads of links now")

    func add(to router: Router<CloudContext>) {
        let link = router.group("s/:secret")
        link.get { try await answer($0, $1, page) }
        link.head { try await answer($0, $1, page) }
        link.get("content") { try await answer($0, $1, content) }
        link.head("content") { try await answer($0, $1, content) }
        link.post("content") { try await answer($0, $1, content) }
    }

    // MARK: Answers

    @Sendable private func page(_ request: Request, _ context: CloudContext) async throws -> Response {
        let link = try await find(request, context)
        return LinkPage.response(.ok, LinkPage.html(of: link, at: request.uri.path))
    }

    @Sendable private func content(_ request: Request, _ context: CloudContext) async throws -> Response {
        let link = try await find(request, context), links = try access.cloud().links
        guard try await isAdmitted(to: link, links, request, context) else {
            let path = request.uri.path.dropSuffix("/content")
            var response = LinkPage.response(.unauthorized, LinkPage.html(of: link, at: path, isWrongPassword: true))
            // A form needs no dialog of the browser.
            if request.method != .post { response.headers[.wwwAuthenticate] = "Basic realm=\"link\"" }
            return response
        }
        return try await LinkDownload(links: links, link: link, departures: departures, downloads: downloads)
            .response(request, context)
    }

    private func answer(
        _ request: Request, _ context: CloudContext, _ make: (Request, CloudContext) async throws -> Response
    ) async throws -> Response {
        do { return try await make(request, context) } catch {
            let (status, text) = Self.failure(error)
            // Not with the path, which is a secret.
            context.logger.log(
                level: status == 500 ? .error : .debug, "request for a link failed",
                metadata: ["status": "\(status)", "reason": "\(error)"])
            var response = LinkPage.response(.init(code: status), LinkPage.html(error: text))
            if let slowed = error as? SlowedSignIn { response.headers[.retryAfter] = "\(slowed.seconds)" }
            return response
        }
    }

    private static func failure(_ error: any Error) -> (status: Int, text: String) {
        switch error {
        case is EndedLink: return (410, "This link has ended. Ask for a new one.")
        case is SlowedSignIn: return (429, "Too many attempts. Wait a moment and try again.")
        case is UnmetCondition: return (412, "The published content is another one.")
        case let refused as RefusedRange: return (416, refused.reason)
        case let error as UbiquityError where error.code == .notFound: return (404, "There is no such link.")
        case let error as UbiquityError where [.tooLarge, .invalid, .signedOut].contains(error.code):
            return (400, error.message)
        default: return (500, "The content cannot be read now.")
        }
    }

    // MARK: Secrets and passwords

    private func find(_ request: Request, _ context: CloudContext) async throws -> PublishedLink {
        let secret = context.parameters.get("secret") ?? "", links = try access.cloud().links
        let origin = FailedSignIns.Origin(address: context.channel.remoteAddress?.ipAddress)
        try guesses.admit(origin, token: secret)
        do {
            guard LinkPath.isSecret(secret) else { throw UbiquityError(.notFound, "there is no such link") }
            let link = try await links.find(secret)
            guesses.accept(token: secret)
            return link
        } catch let error as UbiquityError where error.code == .notFound {
            guesses.fail(origin, logger: context.logger)
            throw error
        }
    }

    private func isAdmitted(
        to link: PublishedLink, _ links: Links, _ request: Request, _ context: CloudContext
    ) async throws -> Bool {
        guard link.hasPassword else { return true }
        guard let password = try await Self.password(in: request) else { return false }
        let origin = FailedSignIns.Origin(
            address: context.channel.remoteAddress?.ipAddress, account: "link \(link.number)")
        let token = "\(link.number) \(password)"
        try guesses.admit(origin, token: token)
        guard try await links.admits(password, to: link) else {
            guesses.fail(origin, logger: context.logger)
            return false
        }
        guesses.accept(token: token)
        return true
    }

    private static func password(in request: Request) async throws -> String? {
        guard request.method == .post else { return try request.basicLogin()?.token }
        let form = String(decoding: try await request.bytes(limit: ServerLimits.linkFormLength), as: UTF8.self)
        for field in form.split(separator: "&") where field.hasPrefix("password=") {
            return PercentEncoding.decode(field.dropFirst("password=".count).replacing("+", with: " "))
        }
        return nil
    }
}

extension String {
    fileprivate func dropSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}

/// The HTML of a link's page. It names neither the account nor a device.
enum LinkPage {
    private static let style = """
        body{font:16px/1.5 system-ui,sans-serif;margin:10vh auto;max-width:34em;padding:0 1em;overflow-wrap:anywhere}
        h1{font-size:1.4em}a,button{display:inline-block;font:inherit;min-height:44px;line-height:44px;padding:0 1.5em;
        border:0;border-radius:6px;background:#06c;color:#fff;text-decoration:none}input{font:inherit;min-height:44px;
        box-sizing:border-box;max-width:100%}@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}}
        """

    static func html(of link: PublishedLink, at path: String, isWrongPassword: Bool = false) -> HTML {
        let content = (path.hasSuffix("/") ? String(path.dropLast()) : path) + "/content"
        let size = ByteSize.text(link.size)
        let facts = link.isFolder ? "\(link.files == 1 ? "1 file" : "\(link.files) files"), \(size)" : size
        let saved = CivilTime.text(seconds: link.savedAt.seconds).replacing("T", with: " ")
        let text = link.isFolder ? "Download as zip" : "Download"
        let wrong: HTML = isWrongPassword ? "<p role=\"alert\">Enter the password of this link.</p>" : .empty
        let action: HTML = link.hasPassword
            ? """
            <form method="post" action="\(content)">\(wrong)<p><label for="password">Password</label><br>
            <input id="password" name="password" type="password" required autocomplete="off"></p>
            <p><button>\(text)</button></p></form>
            """ : "<p><a href=\"\(content)\" download>\(text)</a></p>"
        return whole(
            link.name.description,
            "<p>\(facts), saved \(saved) UTC</p>\(action)")
    }

    static func html(error text: String) -> HTML { whole("Link", "<p>\(text)</p>") }

    private static func whole(_ title: String, _ body: HTML) -> HTML {
        let style: HTML = "<style>\(HTML(stringLiteral: Self.style))</style>"
        return """
            <!doctype html><html lang="en"><meta charset="utf-8">
            <meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">
            <title>\(title)</title>\(style)<main><h1>\(title)</h1>
            \(body)</main></html>

            """
    }

    /// The policy allows this page's style and its form, and nothing else.
    static func response(_ status: HTTPResponse.Status, _ page: HTML) -> Response {
        var response = Response(status: status, mediaType: "text/html; charset=utf-8", bytes: Array(page.text.utf8))
        let digest = MessageDigest.field(of: Array(style.utf8)).split(separator: ":").dropFirst().first ?? ""
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; style-src 'sha256-\(digest)'; form-action 'self'; frame-ancestors 'none'; "
            + "base-uri 'none'"
        response.headers[.xContentTypeOptions] = "nosniff"
        DownloadHeaders.add(to: &response.headers)
        return response
    }
}
