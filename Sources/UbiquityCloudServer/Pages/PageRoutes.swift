import FoundationEssentials
import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Read-only web pages about the cloud's data. They show no content.
struct PageRoutes: Sendable {
    let access: CloudAccess
    private var host: CloudHost { access.host }

    func add(to router: Router<CloudContext>) {
        router.get("/") { try await page($0, $1, overview) }
        let container = router.group("containers/:container")
        container.get { try await page($0, $1, folder) }
        container.get("conflicts") { try await page($0, $1, conflicts) }
        container.get("trash") { try await page($0, $1, trash) }
        container.get("items/:item") { try await page($0, $1, item) }
    }

    /// The authorized viewer. The cloud's owner sees all accounts, any other viewer the account of the token.
    enum Viewer: Hashable, Sendable {
        case owner
        case account(TokenHolder)
    }

    private typealias Make = @Sendable (Request, CloudContext, Viewer) async throws -> HTML

    private func page(_ request: Request, _ context: CloudContext, _ make: Make) async throws -> Response {
        do {
            return Self.response(.ok, try await make(request, context, viewer(request, context)))
        } catch let error as any HTTPResponseError {
            throw error
        } catch {
            let failure = Failures.told((error as? SlowedSignIn)?.error ?? error)
            Failures.log(error, status: failure.status, of: request, logger: context.logger)
            var response = Self.response(
                .init(code: failure.status), .page("ubiquity", "<p>\(failure.error.description)</p>"))
            if failure.status == 401 { response.headers[.wwwAuthenticate] = "Basic realm=\"ubiquity\"" }
            return response
        }
    }

    private static func response(_ status: HTTPResponse.Status, _ page: HTML) -> Response {
        var response = Response(status: status, mediaType: "text/html; charset=utf-8", bytes: Array(page.text.utf8))
        // Names come from every user who shares the account. If one were taken for HTML, it could still do nothing.
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        response.headers[.xContentTypeOptions] = "nosniff"
        return response
    }

    private func viewer(_ request: Request, _ context: CloudContext) async throws -> Viewer {
        let login = try request.basicLogin()
        if try login != nil || request.bearer() != nil {
            return .account(try await access.holder(request, context, login: login))
        }
        guard context.isLocal else {
            throw UbiquityError(
                .signedOut, "this page requires the account's token as password",
                remedy: "enter the token that \"ubiquity account create\" printed; the user name does not matter")
        }
        return .owner
    }

    // MARK: Request parameters

    /// The pages of a container, with its address for all links.
    private func container(
        _ request: Request, _ context: CloudContext, _ viewer: Viewer
    ) async throws -> ContainerPages {
        guard let name = context.parameters.get("container"), let container = ContainerID(name) else {
            throw UbiquityError(.invalidName, "a container's name is \(ContainerID.rules)")
        }
        let account: String
        switch viewer {
        case .owner: account = request.uri.queryParameters["account"].map(String.init) ?? CloudHost.localAccount
        case .account(let holder):
            try holder.rights.require(container, isWriting: false)
            account = holder.account
        }
        return ContainerPages(
            browser: try await host.browser(account, container), account: account, container: container)
    }

    private static func item(_ text: String?) throws -> ItemID {
        guard let item = text.flatMap({ ItemID(hex: $0) }) else {
            throw UbiquityError(.invalid, "an item's id is 32 hexadecimal digits")
        }
        return item
    }

    private static func item(_ name: Substring, of request: Request) throws -> ItemID? {
        try request.uri.queryParameters[name].map { try item(String($0)) }
    }

    @Sendable private func overview(_ request: Request, _ context: CloudContext, _ viewer: Viewer) async throws -> HTML
    {
        let names = switch viewer {
        case .owner: try await host.accounts()
        case .account(let holder): [holder.account]
        }
        let first = try request.number("from", in: 0...Int64(Int32.max), else: 0)
        let shown = names.dropFirst(Int(first)).prefix(OverviewPage.accounts)
        var accounts = [AccountOverview]()
        for name in shown {
            // An account that was deleted meanwhile.
            do { accounts.append(viewer.visible(try await host.overview(name))) } catch let error as UbiquityError
                where error.code == .notFound
            { continue }
        }
        let next = Int(first) + shown.count
        return OverviewPage(accounts: accounts, next: next < names.count ? next : nil).html
    }

    @Sendable private func folder(_ request: Request, _ context: CloudContext, _ viewer: Viewer) async throws -> HTML {
        let after = try request.uri.queryParameters["after"].map { try ItemName(Array($0.utf8)) }
        return try await container(request, context, viewer)
            .folder(Self.item("folder", of: request) ?? .root, after: after)
    }

    @Sendable private func conflicts(_ request: Request, _ context: CloudContext, _ viewer: Viewer) async throws
        -> HTML
    {
        try await container(request, context, viewer).conflicts(after: Self.item("after", of: request))
    }

    @Sendable private func trash(_ request: Request, _ context: CloudContext, _ viewer: Viewer) async throws -> HTML {
        let deletedAt = Timestamp(nanoseconds: try request.number("deleted", in: 0...Int64.max, else: 0))
        let position = try Self.item("after", of: request).map { TrashPosition(deletedAt: deletedAt, id: $0) }
        return try await container(request, context, viewer).trash(after: position)
    }

    @Sendable private func item(_ request: Request, _ context: CloudContext, _ viewer: Viewer) async throws -> HTML {
        try await container(request, context, viewer).item(Self.item(context.parameters.get("item")))
    }
}

extension Request {
    /// The name and the password of `Authorization: Basic …`; nil if there is none.
    func basicLogin() throws -> (name: String, token: String)? {
        guard let field = header("authorization") else { return nil }
        let parts = field.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.first?.lowercased() == "basic" else { return nil }
        guard parts.count == 2, let decoded = Data(base64Encoded: String(parts[1])),
            let text = String(validating: decoded, as: UTF8.self), let colon = text.firstIndex(of: ":")
        else { throw UbiquityError(.signedOut, "the Authorization field is not \"Basic\" and a name and password") }
        return (String(text[..<colon]), String(text[text.index(after: colon)...]))
    }
}

extension PageRoutes.Viewer {
    /// Without the containers that the viewer's token does not open.
    fileprivate func visible(_ overview: AccountOverview) -> AccountOverview {
        guard case .account(let holder) = self, let allowed = holder.rights.containers else { return overview }
        var overview = overview
        overview.containers.removeAll { !allowed.contains($0.name) }
        return overview
    }
}
