import FoundationEssentials
import UbiquityControl

/// A result of a query: an item, downloaded or not, in its last reported state.
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
    public var url: URL { URL(filePath: path) }
    public var path: String { "\(mountPoint)/\(record.item.path)" }
    /// The path from the container's root.
    public var relativePath: String { record.item.path }
    public var fsName: String { record.name }
    /// The name shown to people.
    public var displayName: String { record.name }
    /// "file", "directory", "symlink" or "special".
    public var kind: String { record.item.kind }
    public var isPackage: Bool { record.item.isPackage }
    /// Bytes; for a package, of everything in it.
    public var fsSize: Int64 { record.item.size }
    public var fsCreationDate: Date { Date(timeIntervalSince1970: record.createdAt) }
    public var fsContentChangeDate: Date { Date(timeIntervalSince1970: record.modifiedAt) }
    public var isUbiquitous: Bool { record.item.isUbiquitous }
    public var hasUnresolvedConflicts: Bool { record.item.hasUnresolvedConflicts }
    public var conflictCount: Int { record.item.conflictCount }
    public var downloadingStatus: UbiquitousItemDownloadingStatus { .init(record.item.downloadingStatus) }
    public var isDownloading: Bool { record.item.isDownloading }
    public var isUploaded: Bool { record.item.isUploaded }
    public var isUploading: Bool { record.item.isUploading }
    /// 0 to 100.
    public var percentDownloaded: Double { record.item.percentDownloaded }
    public var percentUploaded: Double { record.item.percentUploaded }
    public var downloadRequested: Bool { record.item.downloadRequested }
    public var isExcludedFromSync: Bool { record.item.isExcludedFromSync }
    public var isPinned: Bool { record.item.isPinned }
    public var containerDisplayName: String { record.item.container }
    public var isShared: Bool { false }

    public var downloadingError: UbiquitousFileError? {
        .reported(code: record.item.downloadingErrorCode, reason: record.item.downloadingError)
    }

    public var uploadingError: UbiquitousFileError? {
        .reported(code: record.item.uploadingErrorCode, reason: record.item.uploadingError)
    }
}
