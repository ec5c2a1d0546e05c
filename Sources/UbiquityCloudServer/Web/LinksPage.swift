import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The links of a container. Anybody with a link downloads one state of a file or a folder.
struct LinksPage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) {
        let container = router.group("containers/:container")
        container.get("links", use: rooms.page(links))
        container.post("links/revoke", use: rooms.action(revoke))
        container.post("items/:item/links", use: rooms.action(create))
    }

    /// The form that makes a link to an item.
    static func form(_ item: RemoteItem, _ container: ContainerID, _ visitor: Visitor) -> HTML? {
        guard item.kind == .file || item.kind == .directory, item.id != .root else { return nil }
        return """
            <details class="share"><summary class="button">\(Icon.link.html)Share by a link</summary>
            <form method="post" action="\(visitor.paths.item(item.id, in: container, "/links"))">\(visitor.formField)
            <p class="soft">Whoever has the link can download the present state. Later changes are not shown.</p>
            <label class="field">The link ends after<select name="days"><option value="1">1 day</option>
            <option value="7" selected>7 days</option><option value="30">30 days</option></select></label>
            <label class="field">Password (if wanted)<input name="password" type="password" maxlength="200"
            autocomplete="new-password"></label><button class="primary">Make the link</button></form></details>
            """
    }

    @Sendable private func links(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor)
        return WebAnswer.page(try await page(request, context, visitor, container, created: nil))
    }

    private func page(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ container: ContainerID, created: NewLink?
    ) async throws -> HTML {
        let frame = try await rooms.frame(request, visitor, container)
        let links = try await rooms.access.cloud().links.list(in: container, of: visitor.account)
        let rows = links.map { link in
            HTML.row(
                itemLink(link, container, visitor), .size(link.size),
                .time(link.created), .time(link.expires), "\(link.hasPassword ? "with password" : "open")",
                "\(link.downloads)", revokeButton(link, container, visitor))
        }
        let list: HTML = rows.isEmpty
            ? """
                <div class="empty">\(Icon.link.html)<p>Nothing is shared.</p>
                <p>Open a file’s page and choose “Share by a link”.</p></div>
                """
            : """
                <section class="card">\(HTML.table(
                    "Links", ["Name", "Size", "Made", "Ends", "Access", "Downloads", "Actions"], rows))</section>
                """
        let new: HTML? = created.map { new in
            let url = address(request, context) + new.path
            return """
                <section class="card" role="alert"><h2>The link to “\(new.link.name)”</h2>
                <p>Copy it now. The cloud does not show it again.</p><div class="row">
                <label class="hidden" for="url">Link</label><input id="url" readonly value="\(url)">
                <button type="button" class="primary" data-copy="\(url)" data-from="url">Copy</button></div></section>
                """
        }
        return frame.page("Links", .links, "<h1>Links</h1>\(new)<div id=\"content\">\(list)</div>")
    }

    private func itemLink(_ link: LinkEntry, _ container: ContainerID, _ visitor: Visitor) -> HTML {
        ItemID(hex: link.item).map { .link(visitor.paths.item($0, in: container), link.name) } ?? "\(link.name)"
    }

    private func revokeButton(_ link: LinkEntry, _ container: ContainerID, _ visitor: Visitor) -> HTML {
        guard visitor.mayWrite else { return .empty }
        return """
            <form method="post" action="\(visitor.paths.container(container, "/links/revoke"))" \
            data-confirm="Revoke the link to \(link.name)?">\(visitor.formField)\
            <input type="hidden" name="link" value="\(link.id)"><button class="danger">Revoke\
            <span class="hidden"> the link to \(link.name)</span></button></form>
            """
    }

    /// The cloud's address, as the visitor's browser knows it.
    private func address(_ request: Request, _ context: CloudContext) -> String {
        let isSecure = context.isSecure || request.header("x-forwarded-proto")?.lowercased() == "https"
        let host = request.header("x-forwarded-host") ?? request.head.authority ?? "localhost"
        return "\(isSecure ? "https" : "http")://\(host)"
    }

    // MARK: Actions

    @Sendable private func create(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let container = try rooms.container(context, visitor, isWriting: true)
        let days = form["days"].flatMap { Double($0) } ?? 7
        let link = try await rooms.access.cloud().links.create(
            LinkRequest(
                item: WebRooms.item(context).description, lifetime: days * 24 * 3600, password: form["password"]),
            in: container, of: visitor.account)
        // Shown at once and never again, so there is no page to go on to.
        let page = try await page(request, context, visitor, container, created: link)
        return WebAnswer.page(page, status: .created)
    }

    @Sendable private func revoke(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let container = try rooms.container(context, visitor, isWriting: true)
        try await rooms.access.cloud().links.revoke(form.required("link"), in: container, of: visitor.account)
        return WebAnswer.seeOther(visitor.paths.container(container, "/links", Notice(.unlinked).query))
    }
}
