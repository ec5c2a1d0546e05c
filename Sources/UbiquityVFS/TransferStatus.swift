package import UbiquityCore

/// Progress of an item's transfers. Provided by the sync engine.
package struct ItemTransfer: Hashable, Sendable {
    package var isDownloading = false
    /// 0 … 100; nil if not known.
    package var percentDownloaded: Int?
    package var downloadingError: UbiquityError?
    package var isUploading = false
    /// 0 … 100; nil if not known.
    package var percentUploaded: Int?
    package var uploadingError: UbiquityError?
    /// Whether a program has paused the sync of the file.
    package var isPaused = false
    /// For a folder: downloaded bytes of incomplete files below it.
    package var downloadedBytes: Int64 = 0
    /// For a folder: uploaded bytes of files below it whose upload is not complete.
    package var uploadedBytes: Int64 = 0

    package init() {}
}

/// Used and total space of the account.
package struct AccountSpace: Hashable, Sendable {
    package var usedBytes: Int64
    package var quotaBytes: Int64

    package init(usedBytes: Int64, quotaBytes: Int64) {
        self.usedBytes = usedBytes
        self.quotaBytes = quotaBytes
    }
}

package protocol TransferStatus: Sendable {
    /// The cloud's last report; nil before the first. Must not wait.
    var space: AccountSpace? { get }

    /// Identifies the account; nil if the device is signed out. Must not wait.
    var identityToken: String? { get }

    /// Nil if no transfer is in progress and none failed. Called on threads that serve the kernel: it must not wait.
    func transfer(of key: ItemKey) -> ItemTransfer?

    /// The same for all items below a folder. Records a completely downloaded content in the index before it returns.
    func transfer(below folder: ItemKey) -> ItemTransfer?
}

/// Actions of the control attributes. Implemented by the sync engine.
package protocol ItemControl: Sendable {
    /// Starts a download of the item, or of the folder's contents. Does not wait for it.
    func requestDownload(_ key: ItemKey) async throws

    /// Makes the item, or the folder's contents, placeholders. Throws `.busy` (open, changed or being uploaded),
    /// `.notPermitted` (pinned), `.noSuchAttribute` (never uploaded).
    func evict(_ key: ItemKey) async throws

    func setPinned(_ key: ItemKey, _ isPinned: Bool) async throws
}
