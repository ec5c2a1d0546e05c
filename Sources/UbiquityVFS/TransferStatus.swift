package import UbiquityCore

/// How far an item's content is on its way. Answered by the sync engine.
package struct ItemTransfer: Hashable, Sendable {
    package var isDownloading = false
    /// 0 … 100; nil if that is not known.
    package var percentDownloaded: Int?
    package var downloadingError: UbiquityError?
    package var isUploading = false
    /// 0 … 100; nil if that is not known.
    package var percentUploaded: Int?
    package var uploadingError: UbiquityError?
    /// For a folder: downloaded bytes of incomplete files below it.
    package var downloadedBytes: Int64 = 0
    /// For a folder: uploaded bytes of files below it whose upload is not complete.
    package var uploadedBytes: Int64 = 0

    package init() {}
}

/// What the account holds, and may hold.
package struct AccountSpace: Hashable, Sendable {
    package var usedBytes: Int64
    package var quotaBytes: Int64

    package init(usedBytes: Int64, quotaBytes: Int64) {
        self.usedBytes = usedBytes
        self.quotaBytes = quotaBytes
    }
}

package protocol TransferStatus: Sendable {
    /// As the cloud last said; nil before it did. Must not wait.
    var space: AccountSpace? { get }

    /// What tells one account from another, and from none: nil if nobody is signed in. Must not wait.
    var identityToken: String? { get }

    /// Nil if nothing is under way and nothing failed. Called on the threads that serve the kernel: it must not wait.
    func transfer(of key: ItemKey) -> ItemTransfer?

    /// The same, of all items below a folder. A content that has come as a whole is noted as here before it returns.
    func transfer(below folder: ItemKey) -> ItemTransfer?
}

/// What the control attributes ask for. Answered by the sync engine.
package protocol ItemControl: Sendable {
    /// Starts a download of the item, or of what is in the folder; does not wait for it.
    func requestDownload(_ key: ItemKey) async throws

    /// Makes the item, or what is in the folder, a placeholder. Throws `.busy` (open, changed or on its way up),
    /// `.notPermitted` (pinned), `.noSuchAttribute` (never uploaded).
    func evict(_ key: ItemKey) async throws

    func setPinned(_ key: ItemKey, _ isPinned: Bool) async throws
}
