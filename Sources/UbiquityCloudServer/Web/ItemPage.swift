import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// One item: a preview, its facts, its versions, and the forms that change it.
struct ItemPage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) {
        let group = router.group("containers/:container/items/:item")
        group.get(use: rooms.page(item))
        group.post("rename", use: rooms.action(rename))
        group.post("delete", use: rooms.action(delete))
        group.post("restore", use: rooms.action(restore))
        group.post("versions/:version/restore", use: rooms.action(restoreVersion))
    }

    @Sendable private func item(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor), id = try WebRooms.item(context)
        let frame = try await rooms.frame(request, visitor, container)
        let browser = try await rooms.browser(visitor, container)
        let place = try await browser.place(of: id)
        let hasVersions = place.item.kind == .file || place.item.conflictCount > 0
        let versions = hasVersions ? try await browser.versions(of: id) : []
        var view = ItemView(frame: frame, container: container, place: place, versions: versions)
        if let content = place.item.content, content.isAvailable, content.size <= WebLimits.shownText,
            FileKind(place.item.name) == .text
        {
            let service = try await rooms.access.host.service(visitor.holder, container)
            view.text = try? await TextContent.read(content.version, service)
        }
        return WebAnswer.page(frame.page(place.item.name.description, .files, isLive: true, view.html))
    }

    @Sendable private func rename(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor), id = try WebRooms.item(context)
        try await writer.rename(id, to: try form.name())
        let item = try await writer.browser.place(of: id).item
        return WebAnswer.seeOther(visitor.paths.folder(item.parent, in: writer.container, Notice(.renamed).query))
    }

    @Sendable private func delete(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor), id = try WebRooms.item(context)
        let item = try await writer.browser.place(of: id).item
        try await writer.delete([id])
        return WebAnswer.seeOther(
            visitor.paths.folder(
                item.parent, in: writer.container, Notice(.deleted).query, ("item", id.description)))
    }

    @Sendable private func restore(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor)
        let item = try await writer.restore(try WebRooms.item(context))
        return WebAnswer.seeOther(visitor.paths.folder(item.parent, in: writer.container, Notice(.restored).query))
    }

    @Sendable private func restoreVersion(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor), id = try WebRooms.item(context)
        try await writer.restore(try WebRooms.version(context.parameters.get("version")), of: id)
        return WebAnswer.seeOther(visitor.paths.item(id, in: writer.container, "", Notice(.restored).query))
    }
}

/// The content of an item's page.
struct ItemView: Sendable {
    let frame: PageFrame
    let container: ContainerID
    let place: ItemPlace
    let versions: [RemoteVersion]
    /// The content, if it is a short text.
    var text: String?

    private var item: RemoteItem { place.item }
    private var paths: WebPaths { frame.paths }
    private var mayWrite: Bool { frame.visitor.mayWrite && item.id != .root }

    var html: HTML {
        """
        \(FolderView.crumbs(paths, container, place))
        <h1>\(item.id == .root ? container.name : item.name.description)</h1>
        <div id="content">\(warnings)<div class="split"><div>
        <section class="card preview" aria-label="Preview">\(preview)</section>\(versionList)</div>
        <div><section class="card" aria-label="Actions"><div class="tools">\(download)</div>\(forms)</section>
        <section class="card"><h2>About</h2>\(facts)</section></div></div></div>
        """
    }

    private var warnings: HTML? {
        if item.isDeleted { return "<p class=\"warning\">This item is in the trash.</p>" }
        guard item.conflictCount > 0 else { return nil }
        let address = paths.item(item.id, in: container, "/conflicts")
        return """
            <p class="warning"><span>Devices changed this file at the same time.</span>\
            <a class="button" href="\(address)">Compare</a></p>
            """
    }

    private var preview: HTML {
        if let text { return "<pre tabindex=\"0\">\(text)</pre>" }
        let icon = ItemRows.icon(of: item)
        guard icon == .picture, let content = item.content, content.isAvailable, content.size <= WebLimits.shownPicture
        else { return icon.html }
        let address = paths.item(item.id, in: container, "/picture", ("version", content.version.description))
        return "<img src=\"\(address)\" alt=\"\(item.name.description)\" data-icon=\"picture\">"
    }

    private var download: HTML? {
        switch item.kind {
        case .directory:
            return """
                <a class="button primary" href="\(paths.item(item.id, in: container, "/zip"))">\(Icon.download.html)\
                Download as zip</a>
                """
        case .file:
            guard let content = item.content, content.isAvailable else {
                return "<p class=\"soft\">\(item.content?.whyNotHere?.message ?? "There is no content.")</p>"
            }
            return """
                <a class="button primary" href="\(paths.item(item.id, in: container, "/content"))">\
                \(Icon.download.html)Download</a>
                """
        default: return nil
        }
    }

    private var forms: HTML? {
        guard mayWrite else { return nil }
        let field = frame.visitor.formField
        let path = { (rest: String) in paths.item(item.id, in: container, rest) }
        guard !item.isDeleted else {
            return """
                <form method="post" action="\(path("/restore"))">\(field)<button class="primary">\(Icon.restore.html)\
                Restore</button></form>
                """
        }
        return """
            <form method="post" action="\(path("/rename"))">\(field)
            <label class="field" for="name">Name</label><div class="row">
            <input id="name" name="name" value="\(item.name.description)" required maxlength="255" autocomplete="off">
            <button>Rename</button></div></form>
            <div class="row end"><a class="button" data-dialog="small" \
            href="\(paths.container(container, "/move", ("item", item.id.description)))">Move…</a>
            <form method="post" action="\(path("/delete"))">\(field)<button class="danger">\(Icon.trash.html)\
            Delete</button></form></div>
            \(LinksPage.form(item, container, frame.visitor))
            """
    }

    private var facts: HTML {
        var rows: [HTML] = ["<dt>Kind</dt><dd>\(ItemRows.word(for: item))</dd>"]
        if let content = item.content {
            rows.append("<dt>Size</dt><dd>\(HTML.size(content.size))</dd>")
            if !content.deviceName.isEmpty { rows.append("<dt>Saved on</dt><dd>\(content.deviceName)</dd>") }
        }
        if item.id != .root {
            rows.append("<dt>Modified</dt><dd>\(HTML.time(item.modifiedAt))</dd>")
            rows.append("<dt>Created</dt><dd>\(HTML.time(item.createdAt))</dd>")
        }
        for attribute in item.xattrs.prefix(20) {
            rows.append(
                "<dt>\(String(decoding: attribute.name, as: UTF8.self))</dt><dd>\(Self.shown(attribute.value))</dd>")
        }
        return "<dl>\(rows)</dl>"
    }

    private var versionList: HTML? {
        guard versions.count > 1 || versions.contains(where: { $0.kind != .current }) else { return nil }
        let rows = versions.map { version -> HTML in
            let query = ("version", version.id.description)
            let isOther = version.id != item.content?.version
            let action: HTML? = isOther && mayWrite && !item.isDeleted && version.content.isAvailable
                ? """
                    <form method="post" \
                    action="\(paths.item(item.id, in: container, "/versions/\(version.id)/restore"))">\
                    \(frame.visitor.formField)<button>Restore</button></form>
                    """ : nil
            let download: HTML = version.content.isAvailable
                ? "<a class=\"button\" href=\"\(paths.item(item.id, in: container, "/content", query))\">Download</a>"
                : "<span class=\"soft\">not uploaded yet</span>"
            return .row(
                "\(Self.word(for: version.kind))", .time(version.modifiedAt), "\(version.content.deviceName)",
                .size(version.content.size), "<div class=\"row\">\(download)\(action)</div>")
        }
        return """
            <section class="card"><h2>Versions</h2>\
            \(HTML.table("Versions", ["Version", "Made", "On", "Size", "Actions"], rows))</section>
            """
    }

    private static func word(for kind: RemoteVersion.Kind) -> String {
        switch kind {
        case .current: "Current"
        case .history: "Earlier"
        case .conflict: "In conflict"
        case .resolved: "Resolved conflict"
        }
    }

    /// The value as text, or in hexadecimal digits if it is not UTF-8.
    private static func shown(_ value: [UInt8]) -> String {
        let part = Array(value.prefix(200)), end = part.count < value.count ? " …" : ""
        return (String(validating: part, as: UTF8.self) ?? Hex.encode(part)) + end
    }
}
