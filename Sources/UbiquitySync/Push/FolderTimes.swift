internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Changes of folder times without other changes.
///
/// Every creation, rename and removal in a folder changes its time, and the time is mostly sent with it. If the file is
/// removed before it was sent, as the temporary file of a save, only the folder's time remains to be sent. The first
/// such change is sent at once. Later ones are collected and sent every `SyncLimits.folderTimesRest`, since each commit
/// costs the cloud a disk write and every other device a turn of the feed.
///
/// It holds when such a group was last sent. The gatherer and `CommitOutcomes` call it. It knows the context only.
final class FolderTimes: SyncRoom {
    let context: SyncContext
    private let sentAt = Lock<Timestamp?>(nil)

    init(_ context: SyncContext) { self.context = context }

    /// Empties a group that consists of folder times only, if such a group was just sent. It is gathered again later. A
    /// full group has a backlog behind it and is sent.
    func delay(_ group: inout [PlannedChange]) {
        guard group.count < configuration.changesPerCommit, group.isFolderTimes else { return }
        let now = timekeeper.now()
        let wait = sentAt.withLock { sentAt -> Timestamp? in
            guard let last = sentAt, last <= now else { return nil }
            let next = last.advanced(bySeconds: SyncLimits.folderTimesRest / .seconds(1))
            guard next > now else { return nil }
            return next
        }
        guard let wait else { return }
        agenda.lookAgain(at: wait)
        group = []
    }

    /// Records the time if the group was one of folder times.
    func recordSent(_ group: [PlannedChange]) {
        guard group.isFolderTimes else { return }
        sentAt.withLock { $0 = timekeeper.now() }
    }
}

extension [PlannedChange] {
    fileprivate var isFolderTimes: Bool {
        !isEmpty && allSatisfy { $0.row.kind == .directory && $0.row.dirty == .times }
    }
}
