/// A key among the extended attributes of this program. The file system, the local socket, the library and the command
/// line take their keys from the types below.
package protocol AttributeName: RawRepresentable<String>, Sendable {}

extension AttributeName {
    /// The name of the extended attribute.
    package var attribute: String { StatusAttribute.prefix + rawValue }
    /// The same, as the kernel passes it.
    package var name: [UInt8] { Array(attribute.utf8) }

    package init?(name: [UInt8]) {
        let prefix = StatusAttribute.prefixBytes
        guard name.starts(with: prefix) else { return nil }
        self.init(rawValue: String(decoding: name.dropFirst(prefix.count), as: UTF8.self))
    }
}

/// The status of an item, key by key: the computed attributes `user.ubiquity.…` of a file, and the keys of queries.
///
/// Every item has all listed ones, so that a listing shows the same names everywhere. An attribute that does not apply
/// is empty.
package enum StatusAttribute: String, AttributeName, CaseIterable, Hashable {
    case isUbiquitous = "is-ubiquitous"
    case downloadingStatus = "downloading-status"
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
    case versionID = "version-id"
    case container = "container"
    case published
    // Not listed, but readable by name.
    /// The name of the `UbiquityError.Code`.
    case downloadingErrorCode = "downloading-error-code"
    case uploadingErrorCode = "uploading-error-code"
    /// Whether a program has paused the sync of the file.
    case isSyncPaused = "is-sync-paused"
    /// On the top folder only.
    case identityToken = "identity-token"

    package static let listed = allCases.filter(\.isListed)

    /// Whether `listxattr` shows it.
    package var isListed: Bool {
        ![.downloadingErrorCode, .uploadingErrorCode, .isSyncPaused, .identityToken].contains(self)
    }

    /// Prefix of all computed and control attributes.
    package static let prefix = "user.ubiquity."
    package static let prefixBytes = Array(prefix.utf8)

    /// Whether it needs the number of conflicts. Counting those of a large folder takes a while.
    package var countsConflicts: Bool { self == .hasUnresolvedConflicts || self == .conflictCount }
}

/// Attributes that start an action when set. They have no value to read and are not listed.
package enum ControlAttribute: String, AttributeName, CaseIterable {
    case download
    case evict
    case pinned
    case resolved
}

/// The attributes of a file in `.versions`.
package enum VersionAttribute: String, AttributeName, CaseIterable {
    case displayName = "display-name"
    case savingDevice = "saving-device"
    case isConflict = "is-conflict"
    case isResolved = "is-resolved"
    case versionID = "version-id"
    case itemID = "item-id"
    case downloadingError = "downloading-error"
}
