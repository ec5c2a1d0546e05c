package import UbiquityCore

/// An item's sync state, as its attributes show it.
package struct ItemSyncStatus: Sendable, Hashable {
    package enum Downloading: String, Sendable, Hashable {
        /// The content is not complete here.
        case notDownloaded = "not-downloaded"
        /// A content is here, and the cloud has a newer one.
        case downloaded
        /// The content is the newest known version.
        case current
    }

    package var downloading: Downloading
    package var isDownloading: Bool
    package var percentDownloaded: Double
    package var downloadingError: UbiquityError?
    package var isDownloadRequested: Bool
    package var isUploading: Bool
    package var percentUploaded: Double
    package var uploadingError: UbiquityError?
    /// Unresolved conflict versions. For a folder, those of all items in it.
    package var conflictCount: Int
    /// When the throttle of a frequently changing item ends.
    package var throttledUntil: Timestamp?
}

/// The sync state of a whole container.
package struct SyncSummary: Sendable, Hashable {
    package var connection: ConnectionStatus
    package var revision: Revision
    package var pendingUploads: Int
    package var pendingUploadBytes: Int64
    package var activeDownloads: Int
    package var pendingDownloadBytes: Int64
    /// Whether no upload or download waits and the feed is read to its end. Contents that do not fit on the disk do not
    /// count.
    package var isIdle: Bool
    /// Whether wanted contents wait for space on the disk and nothing else is being downloaded.
    package var lacksSpace: Bool
}
