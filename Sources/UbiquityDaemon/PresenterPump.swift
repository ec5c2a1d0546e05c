import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Tells presenters what happens to their items. Without presenters a commit costs it one look.
final class PresenterPump: Sendable {
    private let coordination: Coordination
    private let tree: ItemTree
    /// Known conflict versions of items.
    private let conflicts = Lock<[ItemKey: Set<VersionID>]>([:])
    /// Items whose conflicts are remembered; beyond, all are told again.
    private static let maximumKnown = 10_000
    /// Whether there was more to tell than may wait: clients have to look for themselves.
    private let isBehind = Lock(false)
    /// One thread, so that what happened is told in its order.
    private let pool = BlockingPool(name: "presenters", threads: 1)

    init(_ coordination: Coordination, _ index: ItemIndex) {
        self.coordination = coordination
        tree = ItemTree(index: index)
        index.observe { [weak self] events in self?.take(events) }
    }

    /// Takes note of the conflicts that there are, so that their end is told as that: before the first presenter comes,
    /// since nobody has looked till then. Reads the index.
    func noteConflicts() {
        let known = try? tree.index.read { reader in
            try reader.itemsInConflict(withPackages: true, limit: Self.maximumKnown).map { row in
                (row.key, Set(try reader.conflicts(of: row.id).map(\.id)))
            }
        }
        conflicts.withLock { $0 = Dictionary(known ?? []) { first, _ in first } }
    }

    /// On the committing thread, inside the index: it only takes note.
    private func take(_ changes: [IndexEvent]) {
        guard coordination.hasPresenters else { return }
        let doer = Doer.current
        if !pool.start({ self.tell(changes, doneBy: doer) }) { isBehind.withLock { $0 = true } }
    }

    /// Ends a claim of the sync engine when what was done under it has been told: relinquish and reacquire are the
    /// first and the last that a presenter hears of a change.
    func end(_ claim: ClaimID) {
        if !pool.start({ self.coordination.end(claim) }) { coordination.end(claim) }
    }

    private func tell(_ changes: [IndexEvent], doneBy doer: Doer?) {
        let hasLost = isBehind.withLock { isBehind in
            defer { isBehind = false }
            return isBehind
        }
        if hasLost { coordination.noteLoss() }
        var told = [(event: PresenterEvent, places: [ClaimTarget.Entry?])]()
        for change in changes {
            noteMove(change)
            for event in events(of: change) {
                told.append((event, Array(Set([change.before, change.after].compactMap { $0?.claimTarget.entry }))))
            }
        }
        let isRemote = changes.contains { $0.origin == .remote } && doer == nil
        if !told.isEmpty { coordination.tell(told, doneBy: doer, isRemote: isRemote) }
    }

    private func noteMove(_ change: IndexEvent) {
        guard let after = change.after, change.before?.entry != after.entry else { return }
        coordination.noteMove(of: after.key, isFolder: after.kind == .directory, to: after.claimTarget.entry)
    }

    private func events(of change: IndexEvent) -> [PresenterEvent] {
        guard let row = change.after ?? change.before, let path = path(of: row) else { return [] }
        switch change.kind {
        case .added: return [PresenterEvent(.added, item: row.key, path: path)]
        case .removed: return [PresenterEvent(.removed, item: row.key, path: path)]
        case .moved:
            let old = change.before.flatMap(self.path(of:))
            return [PresenterEvent(.moved, item: row.key, path: path, oldPath: old)]
        case .versions: return versionEvents(of: row, path)
        case .attributes, .content, .replaced:
            return isVisible(change)
                ? [PresenterEvent(.changed, item: row.key, path: path, fields: fields(of: change))]
                : [PresenterEvent(.attributesChanged, item: row.key, path: path)]
        }
    }

    /// What became of an item's conflicts since this was last looked at. (A change of other versions is told as gained:
    /// what there is, a listing says.)
    private func versionEvents(of row: ItemRow, _ path: String) -> [PresenterEvent] {
        // An index that cannot be read shows elsewhere; the next change tells what this one could not.
        guard let now = try? Set(tree.index.read({ try $0.conflicts(of: row.id) }).map(\.id)) else { return [] }
        let before = conflicts.withLock { conflicts in
            if conflicts.count >= Self.maximumKnown { conflicts.removeAll() }
            defer { conflicts[row.key] = now.isEmpty ? nil : now }
            return conflicts[row.key] ?? []
        }
        let gained = now.subtracting(before).sorted().map { (PresenterEvent.Kind.versionGained, $0) }
        let resolved = before.subtracting(now).sorted().map { (PresenterEvent.Kind.versionResolved, $0) }
        let events = (gained + resolved).map { kind, version in
            PresenterEvent(kind, item: row.key, path: path, version: version.description, isConflict: true)
        }
        return events.isEmpty ? [PresenterEvent(.versionGained, item: row.key, path: path, isConflict: false)] : events
    }

    /// Which of what programs see is other now.
    private func fields(of change: IndexEvent) -> [String] {
        guard let before = change.before, let after = change.after else { return ["content"] }
        var fields = [String]()
        if change.kind == .replaced || before.size != after.size || before.generation != after.generation
            || before.content != after.content || before.version != after.version
        {
            fields.append("content")
        }
        if before.mode != after.mode { fields.append("mode") }
        if before.modifiedAt != after.modifiedAt { fields.append("times") }
        if before.xattrs != after.xattrs { fields.append("attributes") }
        return fields
    }

    /// Whether what programs see has changed, and not only what this device knows of the item.
    private func isVisible(_ change: IndexEvent) -> Bool {
        guard let before = change.before, let after = change.after else { return true }
        if change.kind == .replaced { return true }
        return before.size != after.size || before.modifiedAt != after.modifiedAt || before.mode != after.mode
            || before.xattrs != after.xattrs || before.generation != after.generation
            || (before.version != after.version && !before.dirty.contains(.content))
    }

    private func path(of row: ItemRow) -> String? {
        if row.key == .root { return "" }
        guard let entry = row.entry else { return nil }
        // A folder that cannot be found is gone, and with it whoever could be told.
        guard let folder = try? tree.path(of: entry.parent) else { return nil }
        return folder.isEmpty ? entry.name.description : "\(folder)/\(entry.name)"
    }
}
