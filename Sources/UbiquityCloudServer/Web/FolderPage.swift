import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore

/// A folder: its items in pages, and the forms that make items in it and move or delete several of them. Also the
/// search by name and the choice of a target folder.
struct FolderPage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) {
        let container = router.group("containers/:container")
        container.get(use: rooms.page(folder))
        container.get("search", use: rooms.page(search))
        container.get("move", use: rooms.page(chooseTarget))
        container.post("folders", use: rooms.action(makeFolder))
        container.post("move", use: rooms.action(move))
        container.post("selection", use: rooms.action(selection))
    }

    // MARK: Pages

    @Sendable private func folder(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor), query = try request.webQuery()
        let frame = try await rooms.frame(request, visitor, container)
        let browser = try await rooms.browser(visitor, container)
        let folder = try query["folder"].map { try WebRooms.item($0) } ?? .root
        let order = query["order"].flatMap(FolderOrder.init(rawValue:)) ?? .name
        let page = max(1, query["page"].flatMap { Int($0) }.map { min($0, 1_000_000) } ?? 1)
        let place = try await browser.place(of: folder)
        guard place.item.kind == .directory else {
            return WebAnswer.seeOther(visitor.paths.item(folder, in: container))
        }
        let listing = try await browser.folder(
            folder, order, onlyFolders: false, from: (page - 1) * WebLimits.items, limit: WebLimits.items)
        let view = FolderView(
            frame: frame, container: container, place: place, listing: listing, order: order, page: page)
        let title = folder == .root ? container.name : place.item.name.description
        return WebAnswer.page(frame.page(title, .files, isLive: true, view.html))
    }

    @Sendable private func search(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor)
        let frame = try await rooms.frame(request, visitor, container)
        let text = try request.webQuery()["q"] ?? ""
        guard !text.isEmpty else { return WebAnswer.seeOther(visitor.paths.container(container)) }
        let found = try await rooms.browser(visitor, container).search(text, limit: WebLimits.results)
        let rows = found.places.sorted { $0.item.name < $1.item.name }.map { place in
            (item: place.item, details: Optional(
                ([container.name] + place.folders.map(\.name.description)).joined(separator: " / ")))
        }
        let list: HTML = rows.isEmpty
            ? "<div class=\"empty\">\(Icon.search.html)<p>No name has “\(text)”.</p></div>"
            : ItemRows(paths: visitor.paths, container: container).table("Found items", rows)
        let more: HTML? = found.isComplete ? nil : "<p class=\"warning\">There are more. Write more of the name.</p>"
        return WebAnswer.page(
            frame.page(
                "“\(text)”", .search, isLive: true,
                "<h1>Names with “\(text)”</h1><div id=\"content\">\(more)\(list)</div>"))
    }

    /// The folders into which the selected items can be moved, one level at a time.
    @Sendable private func chooseTarget(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor, isWriting: true), query = try request.webQuery()
        let frame = try await rooms.frame(request, visitor, container)
        let browser = try await rooms.browser(visitor, container)
        let items = try query.all("item").prefix(WebLimits.formFields).map { try WebRooms.item($0) }
        guard !items.isEmpty else { throw UbiquityError(.invalid, "no item is selected") }
        let folder = try query["folder"].map { try WebRooms.item($0) } ?? .root
        let place = try await browser.place(of: folder)
        let folders = try await browser.folder(
            folder, .name, onlyFolders: true, from: 0, limit: WebLimits.rows)
        let chosen = Set(items)
        let step = { (id: ItemID, name: String) -> HTML in
            let query = items.map { ("item", $0.description) } + [("folder", id.description)]
            let text = query.map { "\($0)=\($1)" }.joined(separator: "&")
            let address = visitor.paths.container(container, "/move")
            let joined = address + (address.contains("?") ? "&" : "?") + text
            return "<a href=\"\(joined)\" data-dialog=\"small\">\(name)</a>"
        }
        let rows: [HTML] = folders.items.filter { !chosen.contains($0.id) && !ItemRows.isPackage($0) }.map {
            "<li class=\"row\">\(Icon.folder.html)\(step($0.id, $0.name.description))</li>"
        }
        let above = place.folders.map { ($0.id, $0.name.description) }
            + (folder == .root ? [] : [(folder, place.item.name.description)])
        let crumbs: [HTML] = ([(ItemID.root, container.name)] + above).map { "<li>\(step($0.0, $0.1))</li>" }
        let body: HTML = """
            <h1>Move \(items.count == 1 ? "the item" : "\(items.count) items") to</h1>
            <nav class="crumbs path" aria-label="Target"><ol>\(crumbs)</ol></nav>
            <ul class="folders">\(rows)</ul>
            \(rows.isEmpty ? "<p class=\"soft\">There are no folders here.</p>" as HTML : .empty)
            <form method="post" action="\(visitor.paths.container(container, "/move"))">\(visitor.formField)
            \(items.map { "<input type=\"hidden\" name=\"item\" value=\"\($0.description)\">" as HTML })
            <input type="hidden" name="folder" value="\(folder.description)">
            <button class="primary">Move here</button></form>
            """
        return WebAnswer.page(frame.page("Move", .files, body))
    }

    // MARK: Actions

    @Sendable private func makeFolder(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor)
        let folder = try form["folder"].map { try WebRooms.item($0) } ?? .root
        _ = try await writer.makeFolder(form.name(), in: folder)
        return back(to: folder, writer, visitor, Notice(.created))
    }

    @Sendable private func move(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor)
        let folder = try WebRooms.item(form.required("folder"))
        try await writer.move(try form.all("item").map { try WebRooms.item($0) }, to: folder)
        return back(to: folder, writer, visitor, Notice(.moved))
    }

    /// The buttons below a list.
    @Sendable private func selection(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor)
        let items = try form.all("item").map { try WebRooms.item($0) }
        let folder = try form["folder"].map { try WebRooms.item($0) } ?? .root
        switch form["action"] {
        case "move":
            let address = visitor.paths.container(writer.container, "/move")
            let query = items.map { "item=\($0)" }.joined(separator: "&")
            return WebAnswer.seeOther(address + (address.contains("?") ? "&" : "?") + query)
        case "delete":
            guard !items.isEmpty else { throw UbiquityError(.invalid, "no item is selected") }
            try await writer.delete(items)
            var notice = Notice(.deleted)
            notice.undeletes = items.count == 1 ? items.first : nil
            return back(to: folder, writer, visitor, notice)
        default: throw UbiquityError(.invalid, "the form names no action")
        }
    }

    private func back(to folder: ItemID, _ writer: ContainerWriter, _ visitor: Visitor, _ notice: Notice) -> Response {
        guard let item = notice.undeletes else {
            return WebAnswer.seeOther(visitor.paths.folder(folder, in: writer.container, notice.query))
        }
        return WebAnswer.seeOther(
            visitor.paths.folder(folder, in: writer.container, notice.query, ("item", item.description)))
    }
}
