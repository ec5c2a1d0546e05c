import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore

/// The first page: the containers of the account; for the cloud's owner all accounts.
struct HomePage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) { router.get("/", use: rooms.page(home)) }

    @Sendable private func home(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        if visitor.isOwner, request.uri.queryParameters["account"] == nil {
            return WebAnswer.page(try await accounts(request))
        }
        let frame = try await rooms.frame(request, visitor)
        let cards: [HTML] = frame.summary.containers.map { container in
            let hint: HTML? = container == frame.summary.containers.first && frame.summary.containers.count == 1
                ? "<span class=\"soft\">All your documents</span>" : nil
            return """
                <a class="card" href="\(visitor.paths.container(container))">\(Icon.folder.html)\
                <span><strong>\(container.name)</strong><br>\(hint)</span></a>
                """
        }
        let content: HTML = cards.isEmpty
            ? """
                <div class="empty">\(Icon.cloud.html)<p>There are no documents yet.</p>
                <p>Mount this account on a device: <code>ubiquity login</code>, then \
                <code>ubiquity mount</code>.</p></div>
                """
            : "<div class=\"cards\">\(cards)</div>"
        return WebAnswer.page(
            frame.page("Home", .home, "<h1>Account \(visitor.account)</h1><div id=\"content\">\(content)</div>"))
    }

    private func accounts(_ request: Request) async throws -> HTML {
        let names = try await rooms.access.host.accounts()
        let first = Int(try request.number("from", in: 0...Int64(Int32.max), else: 0))
        var rows = [HTML]()
        for name in names.dropFirst(first).prefix(WebLimits.accounts) {
            // An account that was deleted meanwhile.
            do { rows.append(Self.row(try await rooms.access.cloud().summary(of: name))) } catch let error
                as UbiquityError where error.code == .notFound
            { continue }
        }
        let next = first + WebLimits.accounts
        let more: HTML? = next < names.count
            ? "<p><a class=\"button\" href=\"/?from=\(next)\">More accounts</a></p>" : nil
        let none: HTML? = rows.isEmpty ? "<p>There is no account here.</p>" : nil
        return PageFrame.bare(
            "Accounts", "<h1>Accounts of this cloud</h1>\(rows)\(none)\(more)")
    }

    private static func row(_ account: AccountSummary) -> HTML {
        """
        <section class="card"><h2><a href="\(WebPaths(account: account.name).account("/"))">Account \
        \(account.name)</a></h2>
        \(PageFrame.usageBar(account.usedBytes, of: account.quotaBytes))</section>
        """
    }
}
