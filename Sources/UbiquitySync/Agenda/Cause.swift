/// A loop of the engine that sleeps until it is woken.
enum EngineLoop: Sendable {
    case feed
    case push
    case downloads
    case space
}

/// A change of state that a loop may wait for.
///
/// `Agenda.happened` wakes the loops of a cause in the order of `loops`, and then those who wait for progress.
/// `architecture/wake-ups.md` has the same table.
enum Cause: Sendable {
    /// The cloud has announced a revision, or the stream of announcements broke.
    case feedHasNews
    /// The feed was read to its end.
    case feedWasRead
    /// The connection to the cloud failed.
    case connectionFailed
    /// A request showed that the device is signed out, or that the feed must be read before the next change.
    case feedIsNeeded
    /// The mount went offline or online on request.
    case offlineModeChanged
    /// A person wants all failed transfers retried.
    case retryRequested

    /// A commit of the index leaves changes to send.
    case changesWereMade
    /// The commit of a group failed, and the pause after it ended.
    case commitPauseEnded
    /// The cloud has taken a group of changes. `showsLost`: contents lost with the power waited for that.
    case changesWereTaken(showsLost: Bool)
    /// The cloud has taken actions on versions.
    case versionActionsWereTaken
    /// A person has confirmed deletions on hold.
    case deletionsWereConfirmed
    /// A person has undone deletions on hold.
    case deletionsWereUndone
    /// Somebody waits for items whose upload paused.
    case pausesWereEnded
    /// The upload of a large content ended or failed.
    case uploadEnded

    /// The users of a package have released it.
    case packageWasReleased
    /// A package shows its new state.
    case packageIsShown
    /// The newer content of a package's files can be downloaded.
    case packageContentsAreWanted
    /// The cloud's state of a package replaced the local one.
    case packageWasReplaced

    /// A program began to write.
    case writerOpened
    /// The last writer of a file closed it.
    case writerClosed
    /// A download was requested, or an item was pinned or unpinned.
    case downloadWasRequested
    /// Background downloads ended, and slots are free.
    case downloadSlotsAreFree
    /// A repair changed the index.
    case indexWasRepaired
    /// Bytes arrived or left, or a transfer began or ended.
    case transferAdvanced
    /// The index has a commit of any kind.
    case indexChanged

    /// The loops to wake, in order.
    var loops: [EngineLoop] {
        switch self {
        case .feedHasNews, .feedIsNeeded: [.feed]
        case .feedWasRead, .retryRequested, .packageWasReleased, .indexWasRepaired: [.push, .downloads]
        case .offlineModeChanged: [.feed, .push, .downloads]
        case .changesWereMade, .commitPauseEnded, .deletionsWereConfirmed, .pausesWereEnded, .uploadEnded: [.push]
        case .changesWereTaken(showsLost: true): [.downloads, .feed]
        case .changesWereTaken, .versionActionsWereTaken, .packageContentsAreWanted, .packageWasReplaced,
            .writerClosed, .downloadWasRequested, .downloadSlotsAreFree:
            [.downloads]
        case .writerOpened: [.space]
        case .connectionFailed, .deletionsWereUndone, .packageIsShown, .transferAdvanced, .indexChanged: []
        }
    }

    /// Whether those who wait for progress look again.
    var isProgress: Bool {
        switch self {
        case .feedWasRead, .connectionFailed, .offlineModeChanged, .changesWereTaken, .versionActionsWereTaken,
            .deletionsWereUndone, .uploadEnded, .packageIsShown, .packageWasReplaced, .transferAdvanced,
            .indexChanged:
            true
        default: false
        }
    }
}
