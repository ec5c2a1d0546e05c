import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Deleted items, and the forms that restore them or delete them for ever.
struct TrashPage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) {
        let container = router.group("containers/:container")
        container.get("trash", use: rooms.page(trash))
        container.post("trash/empty", use: rooms.action(empty))
        container.post("items/:item/purge", use: rooms.action(purge))
    }

    @Sendable private func trash(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor), query = try request.webQuery()
        let frame = try await rooms.frame(request, visitor, container)
        let deletedAt = Timestamp(nanoseconds: query["deleted"].flatMap { Int64($0) } ?? 0)
        let position = try query["after"].map { TrashPosition(deletedAt: deletedAt, id: try WebRooms.item($0)) }
        let page = try await rooms.browser(visitor, container)
            .trash(in: nil, after: position, limit: WebLimits.rows)
        let next: HTML? = page.hasMore ? page.items.last.map { last in
            let address = visitor.paths.container(
                container, "/trash", ("deleted", "\(last.deletedAt.nanoseconds)"), ("after", last.item.id.description))
            return "<nav class=\"pages\" aria-label=\"Pages\"><a class=\"button\" href=\"\(address)\">Next</a></nav>"
        } : nil
        let content: HTML = page.items.isEmpty
            ? "<div class=\"empty\">\(Icon.trash.html)<p>The trash is empty.</p></div>"
            : """
                <table class="items always"><caption class="hidden">Deleted items</caption><thead><tr>
                <th scope="col">Name</th><th scope="col" class="when">Deleted</th><th scope="col" class="size">Size</th>
                <th scope="col" class="both"><span class="hidden">Actions</span></th></tr></thead>
                <tbody>\(page.items.map { row($0, visitor, container) })</tbody></table>\(next)
                """
        let tools: HTML? = visitor.mayWrite && !page.items.isEmpty
            ? """
                <div class="tools"><details><summary class="button danger">\(Icon.trash.html)Empty the trash</summary>
                <form class="card pop" method="post" action="\(visitor.paths.container(container, "/trash/empty"))">
                \(visitor.formField)<p>All deleted items and their versions go for ever. Nothing can restore them.</p>
                <button class="danger">Delete all for ever</button></form></details></div>
                """ : nil
        return WebAnswer.page(
            frame.page(
                "Trash", .trash, isLive: true, "<h1>Trash</h1>\(tools)<div id=\"content\">\(content)</div>"))
    }

    private func row(_ deleted: TrashedItem, _ visitor: Visitor, _ container: ContainerID) -> HTML {
        let item = deleted.item, name = item.name.description
        let path = { (rest: String) in visitor.paths.item(item.id, in: container, rest) }
        let actions: HTML? = visitor.mayWrite
            ? """
                <form method="post" action="\(path("/restore"))">\(visitor.formField)<button>Restore\
                <span class="hidden"> \(name)</span></button></form>
                <details class="menu"><summary class="more"><span class="hidden">More actions for \(name)</span>\
                \(Icon.more.html)</summary><form method="post" action="\(path("/purge"))">\(visitor.formField)\
                <button class="danger">Delete for ever</button></form></details>
                """ : nil
        let size: HTML = item.content.map { .size($0.size) } ?? .empty
        return """
            <tr><td><a class="open" href="\(path(""))" data-dialog><span class="thumb">\
            \(ItemRows.icon(of: item).html)</span><span class="label"><span class="name">\(name)</span>\
            <span class="sub">\(deleted.path)</span></span></a></td>\
            <td class="when">\(HTML.time(deleted.deletedAt))</td><td class="size">\(size)</td>\
            <td class="both"><div class="row">\(actions)</div></td></tr>
            """
    }

    @Sendable private func empty(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let container = try rooms.container(context, visitor, isWriting: true)
        _ = try await rooms.access.cloud().purges.emptyTrash(of: container, of: visitor.account)
        return WebAnswer.seeOther(visitor.paths.container(container, "/trash", Notice(.emptied).query))
    }

    @Sendable private func purge(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let container = try rooms.container(context, visitor, isWriting: true)
        _ = try await rooms.access.cloud().purges.purge(WebRooms.item(context), in: container, of: visitor.account)
        return WebAnswer.seeOther(visitor.paths.container(container, "/trash", Notice(.purged).query))
    }
}
