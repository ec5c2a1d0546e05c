/// Something that happened in a mount, told to whoever listens.
package struct ControlEvent: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, CaseIterable, Hashable, Sendable {
        /// The stream's first event; what happened before it is not told.
        case listening
        /// The listener was too slow and events were left out: look again at what you show.
        case overflow
        case itemAdded = "item-added"
        case itemChanged = "item-changed"
        case itemMoved = "item-moved"
        case itemRemoved = "item-removed"
        /// It has gained a conflict version or an earlier one, or one was resolved.
        case versionsChanged = "versions-changed"
        case uploadStarted = "upload-started"
        case uploadProgress = "upload-progress"
        case uploadDone = "upload-done"
        case uploadFailed = "upload-failed"
        case downloadStarted = "download-started"
        case downloadProgress = "download-progress"
        case downloadDone = "download-done"
        case downloadFailed = "download-failed"
        case evicted
        /// The cloud was reached or lost; `state` has which.
        case state
        /// Somebody has signed in or out: what is cached of the account may be another's.
        case identityChanged = "identity-changed"
    }

    package var kind: Kind
    /// Seconds since 1970-01-01 UTC.
    package var time: Double
    package var itemID: String?
    /// From the mount's root, without a slash in front.
    package var path: String?
    /// Where the item was before it moved.
    package var oldPath: String?
    /// Bytes transferred so far and to transfer in all.
    package var bytes: Int64?
    package var totalBytes: Int64?
    package var revision: Int64?
    package var state: CloudContact.State?
    package var error: String?

    package init(
        _ kind: Kind, time: Double, itemID: String? = nil, path: String? = nil, oldPath: String? = nil,
        bytes: Int64? = nil, totalBytes: Int64? = nil, revision: Int64? = nil, state: CloudContact.State? = nil,
        error: String? = nil
    ) {
        self.kind = kind
        self.time = time
        self.itemID = itemID
        self.path = path
        self.oldPath = oldPath
        self.bytes = bytes
        self.totalBytes = totalBytes
        self.revision = revision
        self.state = state
        self.error = error
    }
}
