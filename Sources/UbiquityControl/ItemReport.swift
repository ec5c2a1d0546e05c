/// The state of one item: the values of the extended attributes `user.ubiquity.*` in one message. The transfer values
/// of a folder (status, percentages, errors, uploaded) cover everything below it.
package struct ItemReport: Codable, Hashable, Sendable {
    package enum DownloadingStatus: String, Codable, CaseIterable, Hashable, Sendable {
        case notDownloaded = "not-downloaded"
        /// An older content is on this device; a newer one is known.
        case downloaded
        case current
    }

    /// From the mount's root, without a slash in front; the root itself is empty.
    package var path: String
    /// "file", "directory", "symlink" or "special".
    package var kind: String
    /// In bytes.
    package var size: Int64
    package var isUbiquitous = false
    package var downloadingStatus = DownloadingStatus.current
    package var isDownloading = false
    package var percentDownloaded = 100.0
    package var downloadingError: String?
    /// The name of the `UbiquityError.Code`.
    package var downloadingErrorCode: String?
    package var downloadRequested = false
    package var isUploaded = false
    package var isUploading = false
    package var percentUploaded = 0.0
    package var uploadingError: String?
    package var uploadingErrorCode: String?
    /// Why the upload of its changes waits; nil if there are none, if they are being sent, and in queries.
    package var uploadWaits: TransferWait?
    /// The same for the download of its newest content.
    package var downloadWaits: TransferWait?
    package var hasUnresolvedConflicts = false
    package var conflictCount = 0
    package var isExcludedFromSync = false
    package var isPackage = false
    package var isPinned = false
    /// For the root: the container's deletions on hold until the user confirms or undoes them.
    package var heldDeletions: Int?
    package var itemID: String?
    package var versionID: String?
    package var container: String

    package init(path: String, kind: String, size: Int64, container: String) {
        self.path = path
        self.kind = kind
        self.size = size
        self.container = container
    }
}
