import UbiquityCore

/// The properties of an item that a query can use: those of every file, and the status of an item in the cloud.
package enum QueryKey: Hashable, Sendable {
    case name
    /// From the container's root, without a slash in front.
    case path
    /// "file", "directory", "symlink" or "special".
    case kind
    /// Of the name, without the dot.
    case suffix
    /// In bytes; for a package, of all its contents.
    case size
    case created
    case modified
    /// The last use on this device; of a file that nobody opened, its arrival. Uses within one day count as one.
    case used
    /// A media type, such as "text/plain", from the name.
    case contentType
    /// Some content is on this device, the newest or an older one.
    case isDownloaded
    case status(StatusAttribute)

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
        case .name, .kind, .suffix, .contentType: .text
        case .path: .path
        case .size: .size
        case .created, .modified, .used: .time
        case .isDownloaded: .flag
        case .status(let attribute): Self.values(of: attribute)
        }
    }

    private static func values(of attribute: StatusAttribute) -> Values {
        switch attribute {
        case .downloadingError, .uploadingError, .itemID: .text
        case .percentDownloaded, .percentUploaded, .conflictCount: .number
        case .downloadingStatus: .status
        default: .flag
        }
    }

    /// Whether a listing of names has it: the others need the state of the sync engine.
    package var isOfListing: Bool {
        switch self {
        case .name, .path, .kind, .suffix, .size, .created, .modified, .used, .contentType, .status(.itemID): true
        case .isDownloaded, .status: false
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
        "display-name": .name, "ext": .suffix, "status": .status(.downloadingStatus),
        "conflicts": .status(.hasUnresolvedConflicts), "downloaded": .isDownloaded,
        "last-used": .used, "type": .contentType,
        "downloading": .status(.isDownloading), "uploaded": .status(.isUploaded), "uploading": .status(.isUploading),
        "pinned": .status(.isPinned), "package": .status(.isPackage), "ubiquitous": .status(.isUbiquitous),
        "excluded": .status(.isExcludedFromSync), "requested": .status(.downloadRequested), "id": .status(.itemID),
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
        "FSContentChangeDate": .modified, "LastUsedDate": .used, "ContentType": .contentType,
        "IsUbiquitous": .status(.isUbiquitous),
        "HasUnresolvedConflicts": .status(.hasUnresolvedConflicts), "DownloadingStatus": .status(.downloadingStatus),
        "IsDownloaded": .isDownloaded, "IsDownloading": .status(.isDownloading),
        "PercentDownloaded": .status(.percentDownloaded), "DownloadingError": .status(.downloadingError),
        "DownloadRequested": .status(.downloadRequested), "IsUploaded": .status(.isUploaded),
        "IsUploading": .status(.isUploading), "PercentUploaded": .status(.percentUploaded),
        "UploadingError": .status(.uploadingError),
    ]
}

extension QueryKey: RawRepresentable, CaseIterable {
    /// Attributes that no query needs.
    private static let notQueried: Set<StatusAttribute> = [
        .versionID, .container, .downloadingErrorCode, .uploadingErrorCode, .isSyncPaused, .identityToken, .published,
    ]

    package static let allCases: [QueryKey] =
        [.name, .path, .kind, .suffix, .size, .created, .modified, .used, .contentType]
        + StatusAttribute.allCases.filter { !notQueried.contains($0) }.flatMap { attribute -> [QueryKey] in
            attribute == .downloadingStatus ? [.status(attribute), .isDownloaded] : [.status(attribute)]
        }

    private static let named = Dictionary(allCases.map { ($0.rawValue, $0) }) { first, _ in first }

    package init?(rawValue: String) {
        guard let key = Self.named[rawValue] else { return nil }
        self = key
    }

    /// The name in a query.
    package var rawValue: String {
        switch self {
        case .name: "name"
        case .path: "path"
        case .kind: "kind"
        case .suffix: "extension"
        case .size: "size"
        case .created: "created"
        case .modified: "modified"
        case .used: "used"
        case .contentType: "content-type"
        case .isDownloaded: "is-downloaded"
        case .status(let attribute): attribute.rawValue
        }
    }
}

/// One value of an item, or a value it is compared with.
package enum QueryValue: Hashable, Sendable {
    case text(String)
    case number(Double)
    /// Seconds since 1970-01-01 UTC.
    case time(Double)
    case flag(Bool)
}
