/// The pictures of the pages. Each page has them once, and refers to them.
enum Icon: String, CaseIterable, Sendable {
    case cloud, search, home, folder, file, picture, text, sound, film, archive, package, link, conflict, trash
    case device, storage, more, upload, download, add, restore

    var html: HTML { "<svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-\(rawValue)\"></use></svg>" }

    /// All of them, invisible, for `html` to refer to.
    static let sprite: HTML = "<svg class=\"sprite\" aria-hidden=\"true\">\(allCases.map(\.symbol))</svg>"

    private var symbol: HTML {
        "<symbol id=\"i-\(rawValue)\" viewBox=\"0 0 24 24\"><path d=\"\(path)\"></path></symbol>"
    }

    /// Lines on a field of 24 by 24.
    private var path: String {
        switch self {
        case .cloud: "M7 18.5h10a4.5 4.5 0 0 0 .6-8.96A6 6 0 0 0 6.1 9.7 4.45 4.45 0 0 0 7 18.5z"
        case .search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.5 15.5 20 20"
        case .home: "M4 11 12 4l8 7M6 9.5V20h12V9.5M10 20v-6h4v6"
        case .folder: "M3 7a2 2 0 0 1 2-2h4.2l2 2.2H19a2 2 0 0 1 2 2V17a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z"
        case .file: "M6 3h8l5 5v13H6zM14 3v5h5"
        case .picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 8.6h.1"
        case .text: "M6 3h8l5 5v13H6zM14 3v5h5M9 12h7M9 15h7M9 18h4"
        case .sound:
            "M9 18V6l10-2v12M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM19 16a2.5 2.5 0 1 1-5 0 2.5 2.5 "
                + "0 0 1 5 0z"
        case .film: "M4 5h16v14H4zM8 5v14M16 5v14M4 9.5h4M4 14.5h4M16 9.5h4M16 14.5h4"
        case .archive: "M4 4h16v5H4zM5.5 9v11h13V9M10 13h4"
        case .package: "M12 3l8 4v10l-8 4-8-4V7zM4 7l8 4 8-4M12 11v10"
        case .link:
            "M10 14a4 4 0 0 0 5.7 0l3-3a4 4 0 0 0-5.7-5.7l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 0 0 11 "
                + "18.7l1-1"
        case .conflict: "M12 3.5 2.5 20h19zM12 10v4.5M12 17.2v.1"
        case .trash: "M4 7h16M9 7V4h6v3M6 7l1 14h10l1-14M10 11v6M14 11v6"
        case .device: "M5 5h14v10H5zM2.5 19h19"
        case .storage:
            "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zM4 6v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 "
                + "12c0 1.7 3.6 3 8 3s8-1.3 8-3"
        case .more: "M6 12h.1M12 12h.1M18 12h.1"
        case .upload: "M12 16V5M7 9.5 12 4.5l5 5M5 19.5h14"
        case .download: "M12 4.5v11M7 11l5 5 5-5M5 19.5h14"
        case .add: "M12 5v14M5 12h14"
        case .restore: "M4 12a8 8 0 1 0 2.6-5.9M4 4v5h5"
        }
    }
}
