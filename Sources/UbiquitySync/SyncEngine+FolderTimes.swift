internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Changes of folder times without other changes.
//
// Every creation, rename and removal in a folder changes its time, and the time is mostly sent with it. If the file is
// removed before it was sent, as the temporary file of a save, only the folder's time remains to be sent. The first
// such change is sent at once. Later ones are collected and sent every `SyncLimits.folderTimesRest`, since each commit
// costs the cloud a disk write and every other device a turn of the feed.
extension SyncEngine {
    /// Empties a group that consists of folder times only, if such a group was just sent. It is gathered again later. A
    /// full group has a backlog behind it and is sent.
    func holdFolderTimes(_ group: inout [PlannedChange]) {
        guard group.count < configuration.changesPerCommit, group.isFolderTimes else { return }
        let now = timekeeper.now()
        let wait = push.withLock { state -> Timestamp? in
            guard let last = state.folderTimesSentAt, last <= now else { return nil }
            let next = last.advanced(bySeconds: SyncLimits.folderTimesRest / .seconds(1))
            guard next > now else { return nil }
            return next
        }
        guard let wait else { return }
        agenda.lookAgain(at: wait)
        group = []
    }

    func noteFolderTimes(_ group: [PlannedChange]) {
        guard group.isFolderTimes else { return }
        push.withLock { $0.folderTimesSentAt = timekeeper.now() }
    }
}

extension [PlannedChange] {
    fileprivate var isFolderTimes: Bool {
        !isEmpty && allSatisfy { $0.row.kind == .directory && $0.row.dirty == .times }
    }
}
