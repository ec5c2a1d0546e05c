internal import UbiquityCloudStore
internal import UbiquityCore

/// The part of the site that a page belongs to, for the navigation.
enum Section: Hashable, Sendable {
    case home, files, conflicts, trash, search, links, devices, storage
}

/// All that surrounds the content of a page: heading, navigation, messages.
struct PageFrame: Sendable {
    let visitor: Visitor
    let summary: AccountSummary
    /// The container of the page. Nil for a page of the account.
    var container: ContainerID?
    var notice: Notice?

    var paths: WebPaths { visitor.paths }

    /// The container that the navigation leads to.
    private var shownContainer: ContainerID? {
        container ?? (summary.containers.count == 1 ? summary.containers.first : nil)
    }

    /// - Parameter isLive: whether the page shows changes of devices without a reload.
    func page(_ title: String, _ section: Section, isLive: Bool = false, _ content: HTML) -> HTML {
        let events: HTML? = isLive ? container.map { " data-events=\"\(paths.container($0, "/events"))\"" } : nil
        return Self.document(
            "\(title) – ubiquity",
            """
            <header class="top">
            <a class="brand" href="\(paths.account("/"))">\(Icon.cloud.html)<span>ubiquity</span></a>
            \(search)
            \(signOut)
            </header>
            <nav class="side" aria-label="Main"><ul>\(navigation(section))</ul>\(bar)</nav>
            <main id="main" tabindex="-1"\(events)>
            <div id="notices" role="status" aria-live="polite">\(notice.map { message($0) })</div>
            \(content)
            </main>
            """)
    }

    private var search: HTML? {
        shownContainer.map { container in
            """
            <form class="search" role="search" action="\(WebPaths().container(container, "/search"))">
            \(paths.account.map { "<input type=\"hidden\" name=\"account\" value=\"\($0)\">" as HTML })
            <label class="hidden" for="q">Search by name</label>\(Icon.search.html)
            <input type="search" id="q" name="q" placeholder="Search by name" maxlength="255" autocomplete="off">
            </form>
            """
        }
    }

    private var signOut: HTML {
        guard !visitor.isOwner, visitor.formToken != nil else { return "<p class=\"who\">\(visitor.account)</p>" }
        return """
            <form class="who" method="post" action="/sign-out">\(visitor.formField)
            <span>\(visitor.account)</span><button class="quiet">Sign out</button></form>
            """
    }

    private func navigation(_ section: Section) -> [HTML] {
        var entries = [entry(section == .home, paths.account("/"), .home, "Home")]
        if let container = shownContainer {
            entries.append(entry(section == .files || section == .search, paths.container(container), .folder, "Files"))
            entries.append(
                entry(section == .conflicts, paths.container(container, "/conflicts"), .conflict, "Conflicts"))
            entries.append(entry(section == .trash, paths.container(container, "/trash"), .trash, "Trash"))
            entries.append(entry(section == .links, paths.container(container, "/links"), .link, "Links"))
        }
        if visitor.hasAllRights {
            entries.append(entry(section == .devices, paths.account("/devices"), .device, "Devices"))
        }
        entries.append(entry(section == .storage, paths.account("/storage"), .storage, "Storage"))
        return entries
    }

    private func entry(_ isCurrent: Bool, _ path: String, _ icon: Icon, _ text: String) -> HTML {
        let current: HTML = isCurrent ? " aria-current=\"page\"" : ""
        return "<li><a href=\"\(path)\"\(current)>\(icon.html)<span>\(text)</span></a></li>"
    }

    private var bar: HTML { "<div class=\"space\">\(Self.usageBar(summary.usedBytes, of: summary.quotaBytes))</div>" }

    /// The used part of a quota, as a bar and in words.
    static func usageBar(_ used: Int64, of quota: Int64) -> HTML {
        let text = "\(ByteSize.text(used)) of \(ByteSize.text(quota)) used"
        return """
            <meter min="0" max="\(max(1, quota))" high="\(quota / 10 * 9)" value="\(used)" aria-label="\(text)">\
            </meter><p>\(text)</p>
            """
    }

    private func message(_ notice: Notice) -> HTML {
        guard let container, let item = notice.undeletes, visitor.mayWrite else {
            return "<p class=\"notice\">\(notice.text)</p>"
        }
        return """
            <form class="notice" method="post" action="\(paths.item(item, in: container, "/restore"))">\
            \(visitor.formField)<span>\(notice.text)</span><button class="quiet">Undo</button></form>
            """
    }

    // MARK: Pages without a visitor

    /// A page with nothing around its content.
    static func bare(_ title: String, _ content: HTML) -> HTML {
        document(
            "\(title) – ubiquity",
            """
            <header class="top"><a class="brand" href="/">\(Icon.cloud.html)<span>ubiquity</span></a></header>
            <main id="main" class="narrow" tabindex="-1">\(content)</main>
            """)
    }

    private static func document(_ title: String, _ body: HTML) -> HTML {
        """
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
        <meta name="color-scheme" content="light dark"><title>\(title)</title>
        <link rel="stylesheet" href="\(WebAssets.stylePath)"><link rel="icon" href="\(WebAssets.iconPath)">
        <script src="\(WebAssets.scriptPath)" defer></script></head>
        <body>\(Icon.sprite)<a class="skip" href="#main">Skip to the content</a>
        \(body)
        </body></html>

        """
    }
}

/// The success of an action, named in the address of the page that follows.
struct Notice: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case created, renamed, moved, deleted, restored, uploaded, purged, emptied, resolved, keptBoth = "kept-both"
        case removed, revoked, approved, unlinked
    }

    let kind: Kind
    /// The single item that was deleted, which the visitor may want back.
    var undeletes: ItemID?

    init(_ kind: Kind) { self.kind = kind }

    /// Nil if the query names none.
    init?(_ form: WebForm) {
        guard let kind = form["done"].flatMap(Kind.init(rawValue:)) else { return nil }
        self.kind = kind
        if kind == .deleted { undeletes = form["item"].flatMap { ItemID(hex: $0) } }
    }

    var query: (String, String) { ("done", kind.rawValue) }

    var text: String {
        switch kind {
        case .created: "The folder is there."
        case .renamed: "Renamed."
        case .moved: "Moved."
        case .deleted: "Moved to the trash."
        case .restored: "Restored."
        case .uploaded: "Uploaded."
        case .purged: "Deleted for ever."
        case .emptied: "The trash is empty."
        case .resolved: "The conflict is resolved."
        case .keptBoth: "Both are kept."
        case .removed: "The device is removed, and its tokens are revoked."
        case .revoked: "The token is revoked. Its sessions have ended."
        case .approved: "The device is signed in."
        case .unlinked: "The link is revoked."
        }
    }
}
