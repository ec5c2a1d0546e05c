import UbiquityControl

/// The attributes that a predicate or an order can use.
///
/// - Source: the keys of `NSMetadataItem`.
public enum MetadataAttribute: String, CaseIterable, Hashable, Sendable {
    /// The item's name in the file system.
    case fsName = "name"
    /// The absolute path.
    case path
    /// "file", "directory", "symlink" or "special".
    case kind
    /// The extension of the item's name.
    case fileExtension = "extension"
    /// The size in bytes; for a package, of everything in it.
    case fsSize = "size"
    /// The item's creation date.
    case fsCreationDate = "created"
    /// The content's modification date.
    case fsContentChangeDate = "modified"
    /// Whether the item is meant for the cloud. It need not be uploaded yet.
    case isUbiquitous = "is-ubiquitous"
    /// Whether the content is on this device, and whether it is the newest that the device knows.
    case downloadingStatus = "downloading-status"
    /// Whether a content is on this device, current or not.
    case isDownloaded = "is-downloaded"
    /// Whether a download is running.
    case isDownloading = "is-downloading"
    /// The downloaded part of the content, from 0 to 100.
    case percentDownloaded = "percent-downloaded"
    /// The reason why the last download failed; none after the next success.
    case downloadingError = "downloading-error"
    /// Whether a program or a person has asked for a download that is not finished.
    case downloadRequested = "download-requested"
    /// Whether the cloud has the current content and attributes.
    case isUploaded = "is-uploaded"
    /// Whether an upload is running.
    case isUploading = "is-uploading"
    /// The uploaded part of the content, from 0 to 100.
    case percentUploaded = "percent-uploaded"
    /// The reason why the last upload failed; none after the next success.
    case uploadingError = "uploading-error"
    /// Whether the item has conflict versions that nobody has resolved.
    case hasUnresolvedConflicts = "has-unresolved-conflicts"
    /// The number of unresolved conflict versions.
    case conflictCount = "conflict-count"
    /// Whether the item stays on this device, by its name, an ignore file, or a `.nosync` folder.
    case isExcludedFromSync = "is-excluded-from-sync"
    /// Whether the item is a folder that is one document.
    case isPackage = "is-package"
    /// Whether the content is kept on this device always.
    case isPinned = "is-pinned"

    // The raw values are the same; a test verifies that.
    var key: QueryKey { QueryKey(rawValue: rawValue) ?? .name }
}
