internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Folders' times that go up by themselves.
//
// Whatever is made, renamed or removed in a folder changes its time, and mostly goes up with it. Of a file that is gone
// before it was sent, as the temporary one of a save, the folder's time is all that is left to say. The first goes at
// once; where one follows the other they go together, each `SyncLimits.folderTimesRest`: each commit costs the cloud a
// write to the disk, and every other device a turn of the feed.
extension SyncEngine {
    /// Takes a group away that says nothing but folders' times, if that was just done; it is gathered again later.
    /// A full group has others behind it, and goes.
    func holdFolderTimes(_ group: inout [PlannedChange]) {
        guard group.count < configuration.changesPerCommit, group.isFolderTimes else { return }
        let now = timekeeper.now()
        let isHeld = push.withLock { state in
            guard let last = state.folderTimesSentAt, last <= now else { return false }
            let next = last.advanced(bySeconds: SyncLimits.folderTimesRest / .seconds(1))
            guard next > now else { return false }
            state.finishedAt = min(state.finishedAt ?? next, next)
            return true
        }
        if isHeld { group = [] }
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
