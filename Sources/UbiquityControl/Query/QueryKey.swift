/// The properties of an item that a query can use. The raw values are the names of the extended attributes without
/// their prefix, where there is one. So the text of a query and a listing of attributes use the same names.
package enum QueryKey: String, CaseIterable, Hashable, Sendable {
    case name
    /// From the container's root, without a slash in front.
    case path
    /// "file", "directory", "symlink" or "special".
    case kind
    /// Of the name, without the dot.
    case suffix = "extension"
    /// In bytes; for a package, of all its contents.
    case size
    case created
    case modified
    case isUbiquitous = "is-ubiquitous"
    case downloadingStatus = "downloading-status"
    /// Some content is on this device, the newest or an older one.
    case isDownloaded = "is-downloaded"
    case isDownloading = "is-downloading"
    case percentDownloaded = "percent-downloaded"
    case downloadingError = "downloading-error"
    case downloadRequested = "download-requested"
    case isUploaded = "is-uploaded"
    case isUploading = "is-uploading"
    case percentUploaded = "percent-uploaded"
    case uploadingError = "uploading-error"
    case hasUnresolvedConflicts = "has-unresolved-conflicts"
    case conflictCount = "conflict-count"
    case isExcludedFromSync = "is-excluded-from-sync"
    case isPackage = "is-package"
    case isPinned = "is-pinned"
    case itemID = "item-id"

    /// The type of its values, and so the possible comparisons.
    package enum Values: Sendable {
        case text
        case path
        case size
        case number
        case time
        case flag
        case status
    }

    package var values: Values {
        switch self {
        case .name, .kind, .suffix, .downloadingError, .uploadingError, .itemID: .text
        case .path: .path
        case .size: .size
        case .percentDownloaded, .percentUploaded, .conflictCount: .number
        case .created, .modified: .time
        case .downloadingStatus: .status
        default: .flag
        }
    }

    /// Whether a listing of names has it: the others need the state of the sync engine.
    package var isOfListing: Bool {
        switch self {
        case .name, .path, .kind, .suffix, .size, .created, .modified, .itemID: true
        default: false
        }
    }

    /// The key for a name: its own, a short one, or one of `NSMetadataItem`'s.
    package init?(written name: String) {
        if let key = QueryKey(rawValue: name) ?? Self.short[name] ?? Self.ofOriginal(name) {
            self = key
        } else {
            return nil
        }
    }

    private static let short: [String: QueryKey] = [
        "display-name": .name, "ext": .suffix, "status": .downloadingStatus, "conflicts": .hasUnresolvedConflicts,
        "downloaded": .isDownloaded, "downloading": .isDownloading, "uploaded": .isUploaded,
        "uploading": .isUploading, "pinned": .isPinned, "package": .isPackage, "ubiquitous": .isUbiquitous,
        "excluded": .isExcludedFromSync, "requested": .downloadRequested, "id": .itemID,
    ]

    /// `NSMetadataItemFSNameKey`, `NSMetadataUbiquitousItemIsUploadedKey`, `kMDItemFSName` and the like.
    private static func ofOriginal(_ name: String) -> QueryKey? {
        for prefix in ["NSMetadataUbiquitousItem", "NSMetadataItem", "kMDItem"] where name.hasPrefix(prefix) {
            let rest = name.dropFirst(prefix.count)
            return original[String(rest.hasSuffix("Key") ? rest.dropLast(3) : rest)]
        }
        return nil
    }

    private static let original: [String: QueryKey] = [
        "FSName": .name, "DisplayName": .name, "Path": .path, "FSSize": .size, "FSCreationDate": .created,
        "FSContentChangeDate": .modified, "IsUbiquitous": .isUbiquitous,
        "HasUnresolvedConflicts": .hasUnresolvedConflicts, "DownloadingStatus": .downloadingStatus,
        "IsDownloaded": .isDownloaded, "IsDownloading": .isDownloading, "PercentDownloaded": .percentDownloaded,
        "DownloadingError": .downloadingError, "DownloadRequested": .downloadRequested, "IsUploaded": .isUploaded,
        "IsUploading": .isUploading, "PercentUploaded": .percentUploaded, "UploadingError": .uploadingError,
    ]
}

/// One value of an item, or a value it is compared with.
package enum QueryValue: Hashable, Sendable {
    case text(String)
    case number(Double)
    /// Seconds since 1970-01-01 UTC.
    case time(Double)
    case flag(Bool)
}
