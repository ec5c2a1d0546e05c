internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Pages about a container: folders, items with their versions, conflicts, the trash.
struct ContainerPages: Sendable {
    /// Rows on one page.
    private static let rows = 500
    /// Bytes of an attribute's value that are shown.
    private static let shownValue = 200

    let browser: any ContainerBrowser
    let address: ContainerAddress

    init(browser: any ContainerBrowser, account: String, container: ContainerID) {
        self.browser = browser
        address = ContainerAddress(account: account, container: container)
    }

    func folder(_ folder: ItemID, after name: ItemName?) async throws -> HTML {
        let listing = try await browser.children(of: folder, after: name, limit: Self.rows)
        let place = folder == .root ? nil : try await browser.place(of: folder)
        let next = listing.hasMore ? listing.items.last.map { last in
            address.path("", ("folder", folder.description), ("after", last.name.description))
        } : nil
        let facts: HTML = place == nil
            ? .empty : "<p>\(HTML.link(address.path("/items/\(folder.description)"), "about this folder"))</p>"
        return page(above: place?.folders ?? [], place?.item.name, "\(facts)\(items(listing.items))\(more(next))")
    }

    func conflicts(after item: ItemID?) async throws -> HTML {
        let listing = try await browser.itemsInConflict(after: item, limit: Self.rows)
        let next = listing.hasMore ? listing.items.last.map { address.path("/conflicts", ("after", $0.id.description)) }
            : nil
        let list: HTML = listing.items.isEmpty ? "<p>Nothing is in conflict.</p>" : items(listing.items)
        return page(above: [], nil, "<h2>In conflict</h2>\(list)\(more(next))")
    }

    func trash(after position: TrashPosition?) async throws -> HTML {
        let listing = try await browser.trash(in: nil, after: position, limit: Limits.maximumTrashPage)
        let next = listing.hasMore ? listing.items.last.map {
            address.path(
                "/trash", ("deleted", "\($0.deletedAt.nanoseconds)"), ("after", $0.item.id.description))
        } : nil
        let rows = listing.items.map { deleted in
            HTML.row(
                link(to: deleted.item, deleted.path), "\(Self.word(for: deleted.item.kind))", size(of: deleted.item),
                "\(CivilTime.text(deleted.deletedAt))")
        }
        let list: HTML = rows.isEmpty
            ? "<p>The trash is empty.</p>" : .table(["path", "kind", "size", "deleted"], rows)
        return page(above: [], nil, "<h2>Trash</h2>\(list)\(more(next))")
    }

    func item(_ id: ItemID) async throws -> HTML {
        let place = try await browser.place(of: id), item = place.item
        let hasVersions = item.kind == .file || item.conflictCount > 0
        let versions = hasVersions ? try await browser.versions(of: id) : []
        let facts = HTML.table(
            ["", ""],
            [
                .row("id", "\(item.id.description)"), .row("kind", "\(Self.word(for: item.kind))"),
                .row("state", "\(Self.state(of: item))"), .row("size", size(of: item)),
                .row("mode", "\(String(item.mode, radix: 8))"), .row("modified", "\(CivilTime.text(item.modifiedAt))"),
                .row("created", "\(CivilTime.text(item.createdAt))"), .row("revision", "\(item.revision.number)"),
            ] + item.xattrs.map { .row("\(String(decoding: $0.name, as: UTF8.self))", "\(Self.shown($0.value))") })
        return page(above: place.folders, item.name, "\(facts)\(list(versions))")
    }

    private func list(_ versions: [RemoteVersion]) -> HTML {
        guard !versions.isEmpty else { return .empty }
        let rows = versions.map { version in
            HTML.row(
                "\(Self.word(for: version.kind))", "\(CivilTime.text(version.modifiedAt))",
                "\(CivilTime.text(version.savedAt))", "\(version.content.deviceName)",
                "\(OverviewPage.bytes(version.content.size))", "\(version.savedName.description)",
                "\(version.content.isAvailable ? "" : "not uploaded")", "\(version.content.version.description)")
        }
        return "<h2>Versions</h2>\(HTML.table(["", "made", "received", "on", "size", "as", "", "id"], rows))"
    }

    // MARK: Parts

    private func page(above folders: [ItemPlace.Folder], _ name: ItemName?, _ body: HTML) -> HTML {
        let above: [HTML] = folders.map { " / \(folderLink($0.id, $0.name.description))" }
        let last: HTML = name.map { " / \($0.description)" } ?? .empty
        return .page(
            address.container.name,
            """
            <p>\(HTML.link("/", address.account)) / \(folderLink(.root, address.container.name))\(above)\(last)</p>
            <p>\(HTML.link(address.path("/conflicts"), "conflicts")) \
            \(HTML.link(address.path("/trash"), "trash"))</p>
            \(body)
            """)
    }

    private func more(_ next: String?) -> HTML { next.map { "<p>\(HTML.link($0, "more"))</p>" } ?? .empty }

    private func folderLink(_ id: ItemID, _ text: String) -> HTML {
        .link(id == .root ? address.path() : address.path("", ("folder", id.description)), text)
    }

    private func link(to item: RemoteItem, _ text: String) -> HTML {
        item.kind == .directory && !item.isDeleted
            ? folderLink(item.id, text) : .link(address.path("/items/\(item.id.description)"), text)
    }

    private func items(_ items: [RemoteItem]) -> HTML {
        guard !items.isEmpty else { return "<p>This folder is empty.</p>" }
        return .table(
            ["name", "kind", "size", "modified", "last saved on", "conflicts", "state"],
            items.map { item in
                .row(
                    link(to: item, item.name.description), "\(Self.word(for: item.kind))", size(of: item),
                    "\(CivilTime.text(item.modifiedAt))", "\(item.content?.deviceName ?? "")",
                    item.conflictCount == 0 ? .empty : "\(item.conflictCount)", "\(Self.state(of: item))")
            })
    }

    private func size(of item: RemoteItem) -> HTML { item.content.map { "\(OverviewPage.bytes($0.size))" } ?? .empty }

    private static func state(of item: RemoteItem) -> String {
        if item.isDeleted { return "deleted" }
        if item.hasLostContent { return "content lost" }
        return item.content?.isAvailable == false ? "content not uploaded" : ""
    }

    private static func word(for kind: ItemKind) -> String {
        switch kind {
        case .file: "file"
        case .directory: "folder"
        case .symlink: "symbolic link"
        case .hardLink: "hard link"
        case .fifo, .socket, .characterDevice, .blockDevice: "special file"
        }
    }

    private static func word(for kind: RemoteVersion.Kind) -> String {
        switch kind {
        case .current: "current"
        case .history: "earlier"
        case .conflict: "conflict"
        case .resolved: "resolved conflict"
        }
    }

    /// The value as text, or in hexadecimal digits if it is not UTF-8.
    private static func shown(_ value: [UInt8]) -> String {
        let part = Array(value.prefix(shownValue)), end = part.count < value.count ? " …" : ""
        let text = String(validating: part, as: UTF8.self)
        return (text ?? part.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()) + end
    }
}
