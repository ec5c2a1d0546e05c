import FoundationEssentials
import UbiquityControl

/// A result of a query: an item, downloaded or not, in its last reported state.
///
/// - Source: `NSMetadataItem`.
public struct MetadataItem: Hashable, Sendable, Identifiable {
    /// An identity that survives renames and moves.
    public struct ID: Hashable, Sendable {
        let mountPoint: String
        let item: String
    }

    package let record: MetadataRecord
    private let mountPoint: String
    /// Whether the item lies in another container than the one searched.
    public let isExternalDocument: Bool

    init(_ record: MetadataRecord, mountPoint: String, isExternal: Bool) {
        self.record = record
        self.mountPoint = mountPoint
        isExternalDocument = isExternal
    }

    public var id: ID { ID(mountPoint: mountPoint, item: record.id) }
    /// The URL of the item.
    public var url: URL { URL(filePath: path) }
    /// The absolute path.
    public var path: String { "\(mountPoint)/\(record.item.path)" }
    /// The path from the container's root.
    public var relativePath: String { record.item.path }
    /// The item's name in the file system.
    public var fsName: String { record.name }
    /// The name shown to people.
    public var displayName: String { record.name }
    /// "file", "directory", "symlink" or "special".
    public var kind: String { record.item.kind }
    /// Whether the item is a folder that is one document.
    public var isPackage: Bool { record.item.isPackage }
    /// Bytes; for a package, of everything in it.
    public var fsSize: Int64 { record.item.size }
    /// The item's creation date.
    public var fsCreationDate: Date { Date(timeIntervalSince1970: record.createdAt) }
    /// The content's modification date.
    public var fsContentChangeDate: Date { Date(timeIntervalSince1970: record.modifiedAt) }
    /// The last use on this device; nil from an older daemon. Uses within one day count as one.
    public var lastUsedDate: Date? { record.usedAt.map { Date(timeIntervalSince1970: $0) } }
    /// A media type from the name, such as "text/plain".
    public var contentType: String { record.contentType }
    /// The content type, and after it the kinds that contain it, such as "text/plain" and "text/*".
    public var contentTypeTree: [String] {
        let type = contentType
        return [type] + (type.split(separator: "/").first.map { ["\($0)/*"] } ?? [])
    }
    /// Whether the item is meant for the cloud. It need not be uploaded yet.
    public var isUbiquitous: Bool { record.item.isUbiquitous }
    /// Whether the item has conflict versions that nobody has resolved.
    public var hasUnresolvedConflicts: Bool { record.item.hasUnresolvedConflicts }
    /// The number of unresolved conflict versions.
    public var conflictCount: Int { record.item.conflictCount }
    /// Whether the content is on this device, and whether it is the newest that the device knows.
    public var downloadingStatus: UbiquitousItemDownloadingStatus { .init(record.item.downloadingStatus) }
    /// Whether a download is running.
    public var isDownloading: Bool { record.item.isDownloading }
    /// Whether the cloud has the current content and attributes.
    public var isUploaded: Bool { record.item.isUploaded }
    /// Whether an upload is running.
    public var isUploading: Bool { record.item.isUploading }
    /// 0 to 100.
    public var percentDownloaded: Double { record.item.percentDownloaded }
    /// The uploaded part of the content, from 0 to 100.
    public var percentUploaded: Double { record.item.percentUploaded }
    /// Whether a program or a person has asked for a download that is not finished.
    public var downloadRequested: Bool { record.item.downloadRequested }
    /// Whether the item stays on this device, by its name, an ignore file, or a `.nosync` folder.
    public var isExcludedFromSync: Bool { record.item.isExcludedFromSync }
    /// Whether the content is kept on this device always.
    public var isPinned: Bool { record.item.isPinned }
    /// The name of the container for people.
    public var containerDisplayName: String { record.item.container }
    /// Whether the item is shared with other accounts: always false.
    public var isShared: Bool { false }

    /// The reason why the last download failed; none after the next success.
    public var downloadingError: UbiquitousFileError? {
        .reported(code: record.item.downloadingErrorCode, reason: record.item.downloadingError)
    }

    /// The reason why the last upload failed; none after the next success.
    public var uploadingError: UbiquitousFileError? {
        .reported(code: record.item.uploadingErrorCode, reason: record.item.uploadingError)
    }
}
