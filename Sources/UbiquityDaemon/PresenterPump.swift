import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Notifies presenters of changes to their items. Without presenters it costs a commit one check.
final class PresenterPump: Sendable {
    private let coordination: Coordination
    private let news: ItemNews
    /// Whether notifications were dropped because the queue was full: clients must look for themselves.
    private let isBehind = Lock(false)
    /// One thread, so that notifications keep their order.
    private let pool = BlockingPool(name: "presenters", threads: 1)

    init(_ coordination: Coordination, _ index: ItemIndex) {
        self.coordination = coordination
        news = ItemNews(index)
        index.observe { [weak self] events in self?.take(events) }
    }

    /// Call it before the first presenter arrives. Reads the index.
    func noteConflicts() { news.noteConflicts() }

    /// Runs on the committing thread, inside the index: it only enqueues.
    private func take(_ changes: [IndexEvent]) {
        guard coordination.hasPresenters else { return }
        let doer = Doer.current
        if !pool.start({ self.tell(changes, doneBy: doer) }) { isBehind.withLock { $0 = true } }
    }

    /// Returns when all notifications so far have been sent. Called before clients are asked about a coming change, so
    /// that relinquish is the first message they get about it.
    func catchUp() async {
        guard coordination.hasPresenters else { return }
        // If the queue is full, notifications are reported as lost in any case.
        try? await pool.run {}
    }

    /// Ends a claim of the sync engine after the notifications of the changes under it. So relinquish and reacquire are
    /// the first and the last messages that a presenter gets about a change.
    func end(_ claim: ClaimID) {
        if !pool.start({ self.coordination.end(claim) }) { coordination.end(claim) }
    }

    private func tell(_ changes: [IndexEvent], doneBy doer: Doer?) {
        FaultPoints.reach("presenters.tell")
        let hasLost = isBehind.withLock { isBehind in
            defer { isBehind = false }
            return isBehind
        }
        if hasLost { coordination.noteLoss() }
        var told = [(event: PresenterEvent, places: [ClaimTarget.Entry?])]()
        for change in changes {
            noteMove(change)
            for event in news.events(of: change) {
                told.append((event, Array(Set([change.before, change.after].compactMap { $0?.claimTarget.entry }))))
                told += moves(inside: change, event).map { ($0, [nil]) }
            }
        }
        let isRemote = changes.contains { $0.origin == .remote } && doer == nil
        if !told.isEmpty { coordination.tell(told, doneBy: doer, isRemote: isRemote) }
    }

    /// The moves of presented items in a moved folder: their presenters need the new paths.
    private func moves(inside change: IndexEvent, _ event: PresenterEvent) -> [PresenterEvent] {
        guard event.kind == .moved, let folder = change.after, folder.kind == .directory, let path = event.path,
            let oldPath = event.oldPath
        else { return [] }
        return coordination.itemsPresented(in: folder.key).compactMap { item in
            guard let now = news.path(of: item), now.isPath(in: path) else { return nil }
            let inside = String(decoding: now.utf8.dropFirst(path.utf8.count), as: UTF8.self)
            return PresenterEvent(.moved, item: item, path: now, oldPath: oldPath + inside)
        }
    }

    private func noteMove(_ change: IndexEvent) {
        // A new item has no presenters.
        guard let after = change.after, let before = change.before, before.entry != after.entry else { return }
        coordination.noteMove(of: after.key, isFolder: after.kind == .directory, to: after.claimTarget.entry)
    }
}
