import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Items in conflict, and the two sides of one conflict beside each other.
struct ConflictPage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) {
        let container = router.group("containers/:container")
        container.get("conflicts", use: rooms.page(list))
        container.get("items/:item/conflicts", use: rooms.page(compare))
        container.post("items/:item/conflicts/:version", use: rooms.action(decide))
    }

    @Sendable private func list(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor)
        let frame = try await rooms.frame(request, visitor, container)
        let browser = try await rooms.browser(visitor, container)
        let after = try request.webQuery()["after"].map { try WebRooms.item($0) }
        let listing = try await browser.itemsInConflict(after: after, limit: WebLimits.rows)
        let cards: [HTML] = listing.items.map { item in
            """
            <a class="card" href="\(visitor.paths.item(item.id, in: container, "/conflicts"))">\
            \(ItemRows.icon(of: item).html)<span><strong>\(item.name.description)</strong><br>\
            <span class="soft">\(item.conflictCount + 1) versions</span></span></a>
            """
        }
        let next: HTML? = listing.hasMore ? listing.items.last.map { last in
            let address = visitor.paths.container(container, "/conflicts", ("after", last.id.description))
            return "<nav class=\"pages\" aria-label=\"Pages\"><a class=\"button\" href=\"\(address)\">Next</a></nav>"
        } : nil
        let content: HTML = cards.isEmpty
            ? "<div class=\"empty\">\(Icon.conflict.html)<p>Nothing is in conflict.</p></div>"
            : """
                <p>Devices changed these at the same time. All versions are kept until you decide.</p>
                <div class="cards">\(cards)</div>\(next)
                """
        return WebAnswer.page(
            frame.page(
                "Conflicts", .conflicts, isLive: true, "<h1>Conflicts</h1><div id=\"content\">\(content)</div>"))
    }

    @Sendable private func compare(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let container = try rooms.container(context, visitor), id = try WebRooms.item(context)
        let frame = try await rooms.frame(request, visitor, container)
        let browser = try await rooms.browser(visitor, container)
        let place = try await browser.place(of: id)
        let versions = try await browser.versions(of: id)
        guard let other = versions.first(where: { $0.kind == .conflict }),
            let current = versions.first(where: { $0.kind == .current })
        else { return WebAnswer.seeOther(visitor.paths.item(id, in: container, "", Notice(.resolved).query)) }
        let service = try await rooms.access.host.service(visitor.holder, container)
        let difference = try await difference(current, other, place.item, service)
        let view = ConflictView(
            frame: frame, container: container, place: place, current: current, other: other,
            count: versions.count { $0.kind == .conflict }, difference: difference)
        return WebAnswer.page(frame.page("Conflict of \(place.item.name)", .conflicts, view.html))
    }

    /// Nil if the versions are no short texts.
    private func difference(
        _ current: RemoteVersion, _ other: RemoteVersion, _ item: RemoteItem, _ service: any CloudService
    ) async throws -> TextDifference? {
        guard item.kind == .file, FileKind(item.name) != .picture,
            current.content.isAvailable, other.content.isAvailable,
            max(current.content.size, other.content.size) <= WebLimits.shownText,
            let old = try await TextContent.read(current.id, service),
            let new = try await TextContent.read(other.id, service)
        else { return nil }
        return TextDifference(old, new)
    }

    @Sendable private func decide(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        let writer = try await rooms.writer(context, visitor), id = try WebRooms.item(context)
        let version = try WebRooms.version(context.parameters.get("version"))
        var notice = Notice(.resolved)
        switch form["keep"] {
        case "current": try await writer.resolve(version, of: id)
        case "other": try await writer.restore(version, of: id)
        case "both":
            try await writer.keepBoth(version, of: id)
            notice = Notice(.keptBoth)
        default: throw UbiquityError(.invalid, "the form does not say what to keep")
        }
        let isOver = try await writer.browser.place(of: id).item.conflictCount == 0
        return WebAnswer.seeOther(
            isOver ? visitor.paths.container(writer.container, "/conflicts", notice.query)
                : visitor.paths.item(id, in: writer.container, "/conflicts", notice.query))
    }
}

/// The two sides of a conflict.
struct ConflictView: Sendable {
    let frame: PageFrame
    let container: ContainerID
    let place: ItemPlace
    let current: RemoteVersion
    let other: RemoteVersion
    /// Undecided conflict versions of the item.
    let count: Int
    let difference: TextDifference?

    private var item: RemoteItem { place.item }
    private var mayWrite: Bool { frame.visitor.mayWrite && !item.isDeleted }

    var html: HTML {
        let more: HTML? = count > 1
            ? "<p class=\"soft\">\(count) conflicts are to decide, one after the other.</p>" : nil
        return """
            \(FolderView.crumbs(frame.paths, container, place))
            <h1>Which version of “\(item.name.description)” is right?</h1>\(more)
            <div class="sides">\(side(current, "current", "Current version"))
            \(side(other, "other", "Other version"))</div>
            \(both)
            \(difference.map { "<h2>Differences</h2>\($0.html(old: "Current version", new: "Other version"))" as HTML })
            """
    }

    private func side(_ version: RemoteVersion, _ keep: String, _ title: String) -> HTML {
        let query = ("version", version.id.description)
        let device = version.content.deviceName.isEmpty ? "an unknown device" : version.content.deviceName
        return """
            <section class="card" aria-label="\(title)"><h2>\(title)</h2>\(picture(version))
            <dl><dt>From</dt><dd>\(device)</dd><dt>Made</dt><dd>\(HTML.time(version.modifiedAt))</dd>
            <dt>Size</dt><dd>\(HTML.size(version.content.size))</dd></dl>
            <div class="row"><a class="button" \
            href="\(frame.paths.item(item.id, in: container, "/content", query))">Download</a>
            \(button(keep, "Keep this", "primary"))</div></section>
            """
    }

    private func picture(_ version: RemoteVersion) -> HTML? {
        guard FileKind(item.name) == .picture, version.content.isAvailable,
            version.content.size <= WebLimits.shownPicture
        else { return nil }
        let query = ("version", version.id.description)
        return """
            <div class="preview"><img src="\(frame.paths.item(item.id, in: container, "/picture", query))" \
            alt="The version from \(version.content.deviceName)" data-icon="picture"></div>
            """
    }

    private var both: HTML? {
        mayWrite && item.kind == .file
            ? "<div class=\"row center\">\(button("both", "Keep both, as two files", ""))</div>" : nil
    }

    private func button(_ keep: String, _ text: String, _ look: String) -> HTML? {
        guard mayWrite else { return nil }
        return """
            <form method="post" action="\(frame.paths.item(item.id, in: container, "/conflicts/\(other.id)"))">\
            \(frame.visitor.formField)<input type="hidden" name="keep" value="\(keep)">\
            <button class="\(look)">\(text)</button></form>
            """
    }
}
