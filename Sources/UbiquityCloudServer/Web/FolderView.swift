internal import UbiquityCloudStore
internal import UbiquityCore

/// The content of a folder's page.
struct FolderView: Sendable {
    let frame: PageFrame
    let container: ContainerID
    let place: ItemPlace
    let listing: FolderListing
    let order: FolderOrder
    let page: Int

    private var paths: WebPaths { frame.paths }
    private var visitor: Visitor { frame.visitor }
    private var folder: ItemID { place.item.id }
    private var mayWrite: Bool { visitor.mayWrite && !isInPackage }
    private var isInPackage: Bool {
        ItemRows.isPackage(place.item)
            || place.folders.contains { PackageRules.standard.isPackage($0.name, []) }
    }

    var html: HTML {
        """
        \(Self.crumbs(paths, container, place))
        <h1>\(folder == .root ? container.name : place.item.name.description)</h1>
        \(tools)
        <div id="content">\(list)\(pages)</div>
        """
    }

    /// The folders above an item, as links.
    static func crumbs(_ paths: WebPaths, _ container: ContainerID, _ place: ItemPlace) -> HTML {
        guard place.item.id != .root else { return .empty }
        let top: HTML = "<li>\(HTML.link(paths.container(container), container.name))</li>"
        let above: [HTML] = place.folders.map { folder in
            "<li>\(HTML.link(paths.folder(folder.id, in: container), folder.name.description))</li>"
        }
        return "<nav class=\"crumbs\" aria-label=\"Folders above\"><ol>\(top)\(above)</ol></nav>"
    }

    private var tools: HTML {
        "<div class=\"tools\">\(mayWrite ? upload : nil)\(mayWrite ? newFolder : nil)\(about)\(sorting)</div>"
    }

    private var upload: HTML {
        """
        <details><summary class="button primary">\(Icon.upload.html)Upload</summary>
        <form class="card pop" method="post" enctype="multipart/form-data" data-upload
        action="\(paths.container(container, "/upload"))">\(visitor.formField)
        <input type="hidden" name="folder" value="\(folder.description)">
        <label class="field">Files<input type="file" name="file" multiple required>
        <small>You can also drop files onto the page.</small></label>
        <div class="plain"><label class="choice"><input type="checkbox" name="replace" value="1">\
        Replace files of the same name</label><button class="primary">Upload</button></div></form></details>
        """
    }

    private var newFolder: HTML {
        """
        <details><summary class="button">\(Icon.add.html)New folder</summary>
        <form class="card pop" method="post" action="\(paths.container(container, "/folders"))">\(visitor.formField)
        <input type="hidden" name="folder" value="\(folder.description)">
        <label class="field">Name<input name="name" required maxlength="255" autocomplete="off"></label>
        <button class="primary">Make the folder</button></form></details>
        """
    }

    private var about: HTML {
        let details: HTML? = folder == .root ? nil
            : "<a class=\"button\" href=\"\(paths.item(folder, in: container))\" data-dialog>Details</a>"
        return """
            <a class="button" href="\(paths.item(folder, in: container, "/zip"))">\(Icon.download.html)Download all</a>
            \(details)
            """
    }

    private var sorting: HTML? {
        guard listing.count > 1, listing.isSorted else { return nil }
        let options: [HTML] = [(FolderOrder.name, "Name"), (.newest, "Newest first"), (.largest, "Largest first")].map {
            "<option value=\"\($0.rawValue)\"\($0 == order ? " selected" : "")>\($1)</option>"
        }
        return """
            <form class="end row" action="\(WebPaths().container(container))">
            \(folder == .root ? nil : "<input type=\"hidden\" name=\"folder\" value=\"\(folder.description)\">" as HTML)
            \(paths.account.map { "<input type=\"hidden\" name=\"account\" value=\"\($0)\">" as HTML })
            <label class="hidden" for="order">Order</label>
            <select id="order" name="order" data-submit>\(options)</select><button class="plain">Sort</button></form>
            """
    }

    private var list: HTML {
        guard !listing.items.isEmpty else {
            let hint = mayWrite ? "Drop files here, or use the button." : "Devices put their documents here."
            return "<div class=\"empty\">\(Icon.folder.html)<p>This folder is empty.</p><p>\(hint)</p></div>"
        }
        var rows = ItemRows(paths: paths, container: container)
        rows.isSelectable = mayWrite
        let table = rows.table("Items of this folder", listing.items.map { ($0, nil) })
        guard mayWrite else { return table }
        return """
            <form method="post" action="\(paths.container(container, "/selection"))">\(visitor.formField)
            <input type="hidden" name="folder" value="\(folder.description)">\(table)
            <div class="selection"><span class="count soft" aria-live="polite">Selected items:</span>
            <button name="action" value="move">Move…</button>
            <button name="action" value="delete" class="danger">\(Icon.trash.html)Delete</button></div></form>
            """
    }

    private var pages: HTML? {
        let count = (listing.count + WebLimits.items - 1) / WebLimits.items
        guard count > 1 else { return nil }
        let step = { (number: Int, text: String) -> HTML? in
            guard (1...count).contains(number) else { return nil }
            let address = paths.folder(folder, in: container, ("order", order.rawValue), ("page", "\(number)"))
            return "<a class=\"button\" href=\"\(address)\">\(text)</a>"
        }
        return """
            <nav class="pages" aria-label="Pages">\(step(page - 1, "Previous"))
            <span>Page \(page) of \(count) · \(listing.count) items</span>\(step(page + 1, "Next"))</nav>
            """
    }
}
