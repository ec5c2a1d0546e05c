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

    /// The pause for a person.
    /// - Parameters:
    ///   - rate: how often a throttled item changes.
    ///   - writers: the programs that write to the item or its package.
    func wait(rate: (commits: Int, seconds: Int)?, writers: [String]) -> ItemWait {
        let reason: ItemWait.Reason =
            switch reason {
            case .isThrottled:
                .changesOften(
                    count: rate?.commits ?? SyncLimits.burst,
                    seconds: rate?.seconds ?? Int(SyncLimits.burstWindow / .seconds(1)))
            case .isClaimed: .claimed(by: writers)
            case .uploadFailed: .connectionFailed
            case .changesDuringRead: .changedDuringRead
            case .packageIsWritten, .packageIsClaimed: .packageWritten(by: writers)
            case .packageChanges: .packageChanging
            case .packageNeedsDecision: .packageUndecided
            }
        return ItemWait(reason, until: until)
    }
}
