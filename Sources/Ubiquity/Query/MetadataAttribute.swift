import UbiquityControl

/// The attributes that a predicate or an order can use.
public enum MetadataAttribute: String, CaseIterable, Hashable, Sendable {
    case fsName = "name"
    case path
    case kind
    case fileExtension = "extension"
    case fsSize = "size"
    case fsCreationDate = "created"
    case fsContentChangeDate = "modified"
    case isUbiquitous = "is-ubiquitous"
    case downloadingStatus = "downloading-status"
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

    // The raw values are the same; a test verifies that.
    var key: QueryKey { QueryKey(rawValue: rawValue) ?? .name }
}
