import UbiquityControl
import UbiquityCore

/// The attributes that a predicate or an order can use.
///
/// - Source: the keys of `NSMetadataItem`.
public enum MetadataAttribute: CaseIterable, Hashable, Sendable {
    /// The item's name in the file system.
    case fsName
    /// The absolute path.
    case path
    /// "file", "directory", "symlink" or "special".
    case kind
    /// The extension of the item's name.
    case fileExtension
    /// The size in bytes; for a package, of everything in it.
    case fsSize
    /// The item's creation date.
    case fsCreationDate
    /// The content's modification date.
    case fsContentChangeDate
    /// The last use on this device; of a file that nobody opened, its arrival. Uses within one day count as one.
    case lastUsedDate
    /// A media type from the name, such as "text/plain"; "image/*" matches a whole kind with `like`.
    case contentType
    /// Whether the item is meant for the cloud. It need not be uploaded yet.
    case isUbiquitous
    /// Whether the content is on this device, and whether it is the newest that the device knows.
    case downloadingStatus
    /// Whether a content is on this device, current or not.
    case isDownloaded
    /// Whether a download is running.
    case isDownloading
    /// The downloaded part of the content, from 0 to 100.
    case percentDownloaded
    /// The reason why the last download failed; none after the next success.
    case downloadingError
    /// Whether a program or a person has asked for a download that is not finished.
    case downloadRequested
    /// Whether the cloud has the current content and attributes.
    case isUploaded
    /// Whether an upload is running.
    case isUploading
    /// The uploaded part of the content, from 0 to 100.
    case percentUploaded
    /// The reason why the last upload failed; none after the next success.
    case uploadingError
    /// Whether the item has conflict versions that nobody has resolved.
    case hasUnresolvedConflicts
    /// The number of unresolved conflict versions.
    case conflictCount
    /// Whether the item stays on this device, by its name, an ignore file, or a `.nosync` folder.
    case isExcludedFromSync
    /// Whether the item is a folder that is one document.
    case isPackage
    /// Whether the content is kept on this device always.
    case isPinned

    var key: QueryKey {
        switch self {
        case .fsName: .name
        case .path: .path
        case .kind: .kind
        case .fileExtension: .suffix
        case .fsSize: .size
        case .fsCreationDate: .created
        case .fsContentChangeDate: .modified
        case .lastUsedDate: .used
        case .contentType: .contentType
        case .isUbiquitous: .status(.isUbiquitous)
        case .downloadingStatus: .status(.downloadingStatus)
        case .isDownloaded: .isDownloaded
        case .isDownloading: .status(.isDownloading)
        case .percentDownloaded: .status(.percentDownloaded)
        case .downloadingError: .status(.downloadingError)
        case .downloadRequested: .status(.downloadRequested)
        case .isUploaded: .status(.isUploaded)
        case .isUploading: .status(.isUploading)
        case .percentUploaded: .status(.percentUploaded)
        case .uploadingError: .status(.uploadingError)
        case .hasUnresolvedConflicts: .status(.hasUnresolvedConflicts)
        case .conflictCount: .status(.conflictCount)
        case .isExcludedFromSync: .status(.isExcludedFromSync)
        case .isPackage: .status(.isPackage)
        case .isPinned: .status(.isPinned)
        }
    }
}

extension MetadataAttribute: RawRepresentable {
    private static let named = Dictionary(allCases.map { ($0.rawValue, $0) }) { first, _ in first }

    /// Makes the attribute of a name.
    ///
    /// - Parameter rawValue: The name in the text of a query.
    public init?(rawValue: String) {
        guard let attribute = Self.named[rawValue] else { return nil }
        self = attribute
    }

    /// The name in the text of a query.
    public var rawValue: String { key.rawValue }
}
