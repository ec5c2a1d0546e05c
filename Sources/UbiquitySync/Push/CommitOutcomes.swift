internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Records what became of changes that were sent: taken, refused, or sent again.
///
/// It holds the pause after failed commits. `ChangeSender` and `PackageSync` call it. It passes the outcome on to
/// `DeletionHold`, `FolderTimes`, `PendingContents`, `AccountQuota` and the agenda.
final class CommitOutcomes: SyncRoom {
    let context: SyncContext
    private let contents: PendingContents
    private let hold: DeletionHold
    private let quota: AccountQuota
    private let folderTimes: FolderTimes
    /// The wait after a failed commit while the feed works: the cloud may fail at once.
    private let backoff = Lock(Backoff())

    init(
        _ context: SyncContext, _ contents: PendingContents, _ hold: DeletionHold, _ quota: AccountQuota,
        _ folderTimes: FolderTimes
    ) {
        self.context = context
        self.contents = contents
        self.hold = hold
        self.quota = quota
        self.folderTimes = folderTimes
    }

    /// The pause after another failed commit. It grows until a commit succeeds.
    func nextPause() -> Duration { backoff.withLock { $0.next(random) } }

    /// Records that the cloud has the changes and that the index knows it.
    func recordSent(_ group: [PlannedChange]) {
        hold.recordSent(group)
        folderTimes.recordSent(group)
        backoff.withLock { $0.reset() }
        let complete = group.filter(\.hasAll).map(\.row.key)
        contents.remove(complete)
        agenda.succeeded(complete)
        for change in group where change.hasAll {
            problems.clear(.upload, of: change.row.key)
            guard change.isOften, throttle.noteCommit(of: change.row.key) else { continue }
            logger.warning(
                "programs on this and another device change a file in turns; its uploads are throttled",
                metadata: ["item": "\(change.row.id)", "name": "\(change.row.entry?.name.description ?? "")"])
        }
        quota.endIfNoneWaits()
        connection.succeeded()
        // Downloads that waited for the change start now: the feed may have reported it before this answer arrived.
        // Lost contents that waited for their items to be placed may be given up now.
        agenda.happened(.changesWereTaken(showsLost: feed.looksForLost))
    }

    /// Handles that the cloud has dropped chunks sent long ago. Their files are uploaded again, after a longer wait
    /// each time: the cloud may be discarding everything it takes.
    func forgetPrepared(_ group: [PlannedChange], lacking: Set<ChunkID>) {
        let sent = group.filter { !$0.manifest.isEmpty }
        let incomplete = sent.filter { $0.manifest.contains { lacking.contains($0.id) } }
        // A cloud that names chunks it was never sent is not asked again at once either.
        for row in (incomplete.isEmpty ? sent : incomplete).map(\.row) {
            contents.remove([row.key])
            agenda.pauseAfterFailure(row.key)
            problems.note(
                UbiquityError(
                    .io, "the cloud lacks a part of the uploaded content", remedy: "it is uploaded again"),
                .upload, of: row.key)
        }
    }

    /// Records that the cloud refuses a package. No part of it is sent without the others.
    func recordRefusal(of members: [ItemKey], _ error: UbiquityError) {
        logger.warning("the cloud refuses the changes of a package", metadata: ["reason": "\(error)"])
        for member in members { problems.note(error, .upload, of: member) }
    }
}

extension PlannedChange {
    /// The chunks of the content that the change carries.
    fileprivate var manifest: Manifest {
        guard case .put(let fields) = change.action else { return [] }
        return fields.content?.manifest ?? []
    }

    /// Whether the change carries the row's content, or the row has no dirty content. Otherwise the content still
    /// waits.
    fileprivate var hasAll: Bool {
        guard case .put(let fields) = change.action else { return true }
        return fields.content != nil || !row.dirty.contains(.content) || row.kind != .file
    }

    /// Whether the change counts towards the throttle. Changes that accompany others, like a folder's times, do not.
    fileprivate var isOften: Bool {
        guard case .put(let fields) = change.action else { return false }
        return fields.content != nil || row.kind == .file && !row.dirty.contains(.created) && fields.place == nil
    }
}

extension UbiquityError {
    /// Whether the error concerns the changes or contents of a request, and not the connection.
    var isAboutContent: Bool {
        switch code {
        case .invalid, .tooLarge, .quotaExceeded, .notFound, .notPermitted, .accessDenied: true
        // The cloud's state of the item is damaged.
        case .damaged: true
        default: false
        }
    }
}
