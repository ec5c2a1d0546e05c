/// An event in a mount, sent to all listeners.
package struct ControlEvent: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, CaseIterable, Hashable, Sendable {
        /// The stream's first event; earlier events are not sent.
        case listening
        /// The listener was too slow and events were dropped: read the state again.
        case overflow
        case itemAdded = "item-added"
        case itemChanged = "item-changed"
        case itemMoved = "item-moved"
        case itemRemoved = "item-removed"
        /// A status such as downloaded or uploaded changed, and nothing that programs see in the item.
        case ubiquityAttributesChanged = "ubiquity-attributes-changed"
        /// The item gained a version besides the current one: a conflict, or the previously current version.
        case versionGained = "version-gained"
        /// An earlier version is gone.
        case versionLost = "version-lost"
        /// A conflict was decided, on this device or another.
        case versionResolved = "version-resolved"
        /// A program that presents the item is asked to carry out `steps`, because another one wants to use it.
        case asked
        /// The program has answered; `error` is the reason if it refused.
        case answered
        /// The program has not answered in time; nothing waits for it any more.
        case passedOver = "passed-over"
        /// The announced access is over: the program may use the item again.
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
        /// The connection to the cloud came up or was lost; `state` tells which.
        case state
        /// The user signed in or out: cached account data may belong to another account.
        case identityChanged = "identity-changed"
        /// Many deletions wait for the user's decision; `error` has their number and the commands that decide.
        case deletionsHeld = "deletions-held"
        /// Keys of the key-value store show other values, or a set was refused: `store`, `reason`, `changedKeys`.
        case keyValuesChanged = "key-values-changed"
    }

    package var kind: Kind
    /// Seconds since 1970-01-01 UTC.
    package var time: Double
    package var itemID: String?
    /// From the mount's root, without a slash in front.
    package var path: String?
    /// The item's path before it moved.
    package var oldPath: String?
    /// Bytes transferred so far, and in all.
    package var bytes: Int64?
    package var totalBytes: Int64?
    package var revision: Int64?
    package var state: CloudContact.State?
    package var error: String?
    /// The version gained, lost or resolved, if known.
    package var version: String?
    package var isConflict: Bool?
    /// The name of the coordination client.
    package var client: String?
    /// The question that was asked or answered, or that is over.
    package var question: UInt64?
    /// The requested steps, as in `ClientNews`.
    package var steps: [String]?
    /// The key-value store, why its values changed (`KeyValueReason`), and the keys.
    package var store: String?
    package var reason: String?
    package var changedKeys: [String]?

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
