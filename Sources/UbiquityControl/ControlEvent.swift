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
        /// Whether it is downloaded, uploaded and the like is other, and nothing that programs see in it.
        case ubiquityAttributesChanged = "ubiquity-attributes-changed"
        /// There is a version beside the current one: a conflict, or what was current before.
        case versionGained = "version-gained"
        /// An earlier version is gone.
        case versionLost = "version-lost"
        /// A conflict was decided, here or elsewhere.
        case versionResolved = "version-resolved"
        /// A program that shows the item is asked to carry out `steps`, because somebody wants to use it.
        case asked
        /// It has; `error` is the reason if it refused.
        case answered
        /// It has not answered in its time and is not waited for any more.
        case passedOver = "passed-over"
        /// The access that it was asked for is over: it may use the item again.
        case reacquired
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
        /// Many deletions wait for a person's decision; `error` has how many, and the commands that decide.
        case deletionsHeld = "deletions-held"
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
    /// The version gained, lost or resolved, if it is known.
    package var version: String?
    package var isConflict: Bool?
    /// The name of the program that takes part.
    package var client: String?
    /// The question that was asked, answered, or is over.
    package var question: UInt64?
    /// What was asked for, as in `ClientNews`.
    package var steps: [String]?

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
