internal import UbiquityCore

/// An item's upload that waits until a time.
struct Pause: Sendable, Hashable {
    enum Reason: Sendable, Hashable {
        /// A program changed the file while it was read, or the recorded state is not the file's.
        case changesDuringRead
        /// A client has claimed the item for writing.
        case isClaimed
        /// It changes again and again.
        case isThrottled
        /// Its chunks failed to upload.
        case uploadFailed
        /// A program has a file of the package open for writing.
        case packageIsWritten
        /// The package has just changed.
        case packageChanges
        /// A client has claimed the package for writing.
        case packageIsClaimed
        /// Two states of the package need a decision that is not possible yet.
        case packageNeedsDecision
    }

    var until: Timestamp
    var reason: Reason
}
