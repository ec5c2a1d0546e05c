internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// State of the change feed that is not in the index.
struct FeedState {
    /// The newest revision that the cloud has announced.
    var announced = Revision.zero
    /// Whether the feed was read to its end since the connection was made.
    var isCaughtUp = false
    /// A loss of power may have destroyed contents that were announced to the cloud but not uploaded.
    var mayHaveLost = false
    /// Whether the index records everything this device has sent, or the feed has reported the rest.
    var knowsWhatWasSent = true
    /// Some lost contents wait for their items to be placed. They are given up afterwards.
    var looksForLost = false
    /// Items that this device deleted at the cloud since the page in flight was requested, with the revision of each
    /// deletion. The page may still contain them, and the index has removed them. Nil if no page is in flight, so that
    /// it holds only the answers of one request's duration.
    fileprivate(set) var deletedMeanwhile: [ItemID: Revision]?
}

/// How far this device has read the change feed. The feed's reader writes it. The uploader sends nothing before the
/// feed is read to its end. Recovery records what a loss of power may have destroyed.
final class FeedStatus: Sendable {
    private let state = Lock(FeedState())

    var current: FeedState { state.withLock { $0 } }

    var isCaughtUp: Bool { state.withLock { $0.isCaughtUp } }

    var looksForLost: Bool { state.withLock { $0.looksForLost } }

    func update(_ change: (inout FeedState) -> Void) { state.withLock { change(&$0) } }

    /// Begins to record deletions. Call it before a page is requested. Answers to commits are newer than that page.
    func beginPage() { state.withLock { $0.deletedMeanwhile = [:] } }

    /// Ends the record of deletions. Call it when the page is applied.
    func endPage() { state.withLock { $0.deletedMeanwhile = nil } }

    /// Records the items that the cloud deleted for this device. Call it before the index removes them.
    func recordDeletions(_ response: CommitResponse) {
        state.withLock { state in
            for case let item? in response.results.map(\.item) where item.isDeleted {
                state.deletedMeanwhile?[item.id] = item.revision
            }
        }
    }
}
