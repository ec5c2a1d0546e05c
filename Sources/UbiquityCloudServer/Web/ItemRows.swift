internal import UbiquityCloudStore
internal import UbiquityCore

/// A table of items: of a folder, a search, or conflicts.
struct ItemRows: Sendable {
    let paths: WebPaths
    let container: ContainerID
    /// Whether rows can be selected.
    var isSelectable = false

    /// - Parameter details: for each item a line below its name.
    func table(_ caption: String, _ items: [(item: RemoteItem, details: String?)]) -> HTML {
        let pick: HTML? = isSelectable
            ? """
                <th scope="col" class="pick"><label><span class="hidden">Select all</span>\
                <input type="checkbox" data-all></label></th>
                """ : nil
        let isDetailed = items.contains { $0.details != nil }
        return """
            <table class="items\(isDetailed ? " always" : "")"><caption class="hidden">\(caption)</caption>
            <thead><tr>\(pick)<th scope="col">Name</th><th scope="col" class="when">Modified</th>\
            <th scope="col" class="size">Size</th><th scope="col" class="act">\
            <span class="hidden">Actions</span></th></tr>
            </thead><tbody>\(items.map { row($0.item, $0.details) })</tbody></table>
            """
    }

    private func row(_ item: RemoteItem, _ details: String?) -> HTML {
        let name = item.name.description, id = item.id.description
        let pick: HTML? = isSelectable
            ? """
                <td class="pick"><label><span class="hidden">Select \(name)</span>\
                <input type="checkbox" name="item" value="\(id)"></label></td>
                """ : nil
        let isOpen = item.kind == .directory && !Self.isPackage(item)
        let target = isOpen ? paths.folder(item.id, in: container) : paths.item(item.id, in: container)
        let dialog: HTML? = isOpen ? nil : " data-dialog"
        let size: HTML = item.content.map { .size($0.size) } ?? .empty
        let below: HTML = details.map { "\($0)" }
            ?? "\(size)\(size.text.isEmpty ? "" : " · ")\(HTML.time(item.modifiedAt))"
        return """
            <tr data-name="\(name)">\(pick)<td><a class="open" id="i\(id)" href="\(target)"\(dialog)>\
            \(thumbnail(item))<span class="label"><span class="name">\(name)</span>\(badge(item))\
            <span class="sub">\(below)</span></span></a></td>\
            <td class="when">\(HTML.time(item.modifiedAt))</td><td class="size">\(size)</td>\
            <td class="act"><a class="more" href="\(paths.item(item.id, in: container))" data-dialog>\
            <span class="hidden">Actions for \(name)</span>\(Icon.more.html)</a></td></tr>
            """
    }

    private func badge(_ item: RemoteItem) -> HTML? {
        if item.conflictCount > 0 { return "<span class=\"badge\">in conflict</span>" }
        if item.hasLostContent { return "<span class=\"badge\">content lost</span>" }
        return item.content?.isAvailable == false ? "<span class=\"badge\">being uploaded</span>" : nil
    }

    private func thumbnail(_ item: RemoteItem) -> HTML {
        let icon = Self.icon(of: item)
        guard icon == .picture, let content = item.content, content.isAvailable,
            content.size <= WebLimits.smallPicture
        else {
            let folder: HTML = icon == .folder ? " is-folder" : ""
            return """
                <span class="thumb"><svg class="icon\(folder)" aria-hidden="true">\
                <use href="#i-\(icon.rawValue)"></use></svg></span>
                """
        }
        let address = paths.item(item.id, in: container, "/picture", ("version", content.version.description))
        return """
            <span class="thumb"><img src="\(address)" alt="" loading="lazy" decoding="async" width="40" height="40" \
            data-icon="picture"></span>
            """
    }

    static func isPackage(_ item: RemoteItem) -> Bool {
        item.kind == .directory && PackageRules.standard.isPackage(item.name, item.xattrs)
    }

    static func icon(of item: RemoteItem) -> Icon {
        switch item.kind {
        case .directory: isPackage(item) ? .package : .folder
        case .symlink, .hardLink: .link
        case .file: FileKind(item.name).icon
        case .fifo, .socket, .characterDevice, .blockDevice: .file
        }
    }

    static func word(for item: RemoteItem) -> String {
        switch item.kind {
        case .file: "file"
        case .directory: isPackage(item) ? "package" : "folder"
        case .symlink: "symbolic link"
        case .hardLink: "hard link"
        case .fifo, .socket, .characterDevice, .blockDevice: "special file"
        }
    }
}

/// The kind of a file, by the extension of its name.
enum FileKind: Sendable {
    case picture, text, sound, film, archive, other

    init(_ name: ItemName) {
        let suffix = String(decoding: name.stemAndExtension.suffix.dropFirst(), as: UTF8.self).lowercased()
        self = switch suffix {
        case "png", "jpg", "jpeg", "gif", "webp", "avif", "bmp": .picture
        case "txt", "md", "markdown", "csv", "tsv", "log", "json", "xml", "yaml", "yml", "toml", "ini", "conf", "html",
            "htm", "css", "js", "ts", "py", "swift", "c", "h", "cpp", "rs", "go", "java", "rb", "sh", "sql", "tex",
            "org", "rst", "svg", "diff", "patch":
            .text
        case "mp3", "flac", "ogg", "opus", "wav", "m4a", "aac": .sound
        case "mp4", "mkv", "webm", "mov", "avi", "m4v": .film
        case "zip", "gz", "xz", "zst", "bz2", "tar", "7z", "rar", "tgz", "deb": .archive
        default: .other
        }
    }

    var icon: Icon {
        switch self {
        case .picture: .picture
        case .text: .text
        case .sound: .sound
        case .film: .film
        case .archive: .archive
        case .other: .file
        }
    }
}
