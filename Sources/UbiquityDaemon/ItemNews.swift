import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// Translates a commit of the index into events for presenters and listeners.
///
/// A conflict event depends on the conflicts known before, so each sender needs an instance of its own.
final class ItemNews: Sendable {
    private let tree: ItemTree
    /// Known conflict versions by item.
    private let conflicts = Lock<[ItemKey: Set<VersionID>]>([:])
    /// Items whose conflicts are remembered; beyond that, all are announced again.
    private static let maximumKnown = 10_000

    init(_ index: ItemIndex) { tree = ItemTree(index: index) }

    /// Records the existing conflicts, so that their resolution is announced as such. Call it before the first receiver
    /// arrives. Reads the index.
    func noteConflicts() {
        let known = try? tree.index.read { reader in
            try reader.itemsInConflict(withPackages: true, limit: Self.maximumKnown).map { row in
                (row.key, Set(try reader.conflicts(of: row.id).map(\.id)))
            }
        }
        conflicts.withLock { $0 = Dictionary(known ?? []) { first, _ in first } }
    }

    /// The events of a change; none for an item without a path, which no receiver can have.
    func events(of change: IndexEvent) -> [PresenterEvent] {
        guard let row = change.after ?? change.before, let path = path(of: row) else { return [] }
        switch change.kind {
        case .added: return [PresenterEvent(.added, item: row.key, path: path)]
        case .removed: return [PresenterEvent(.removed, item: row.key, path: path)]
        case .moved:
            let old = change.before.flatMap(self.path(of:))
            return [PresenterEvent(.moved, item: row.key, path: path, oldPath: old)]
        case .versions: return versionEvents(of: row, change.versionsChange, path)
        case .attributes, .content, .replaced:
            return isVisible(change)
                ? [PresenterEvent(.changed, item: row.key, path: path, fields: fields(of: change))]
                : [PresenterEvent(.attributesChanged, item: row.key, path: path)]
        }
    }

    private func versionEvents(
        of row: ItemRow, _ change: IndexEvent.VersionsChange?, _ path: String
    ) -> [PresenterEvent] {
        func event(_ kind: PresenterEvent.Kind, _ version: VersionID?, isConflict: Bool) -> PresenterEvent {
            PresenterEvent(kind, item: row.key, path: path, version: version?.description, isConflict: isConflict)
        }
        let (gained, resolved) = conflictsChanged(row)
        let told =
            gained.map { event(.versionGained, $0, isConflict: true) }
            + resolved.map { event(.versionResolved, $0, isConflict: true) }
        // A decision about a conflict is announced as that only.
        guard told.isEmpty else { return told }
        switch change {
        case .gained(let version): return [event(.versionGained, version, isConflict: false)]
        case .lost(let version): return [event(.versionLost, version, isConflict: false)]
        case .conflicts, nil: return []
        }
    }

    /// The conflicts gained and resolved since the last call for the item.
    private func conflictsChanged(_ row: ItemRow) -> (gained: [VersionID], resolved: [VersionID]) {
        // An unreadable index shows elsewhere; the next change announces what this one could not.
        guard let now = try? Set(tree.index.read({ try $0.conflicts(of: row.id) }).map(\.id)) else { return ([], []) }
        let before = conflicts.withLock { conflicts in
            if conflicts.count >= Self.maximumKnown { conflicts.removeAll() }
            defer { conflicts[row.key] = now.isEmpty ? nil : now }
            return conflicts[row.key] ?? []
        }
        return (now.subtracting(before).sorted(), before.subtracting(now).sorted())
    }

    /// The visible fields that changed.
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

    /// Whether a visible field changed, and not only this device's knowledge of the item.
    private func isVisible(_ change: IndexEvent) -> Bool {
        guard let before = change.before, let after = change.after else { return true }
        if change.kind == .replaced { return true }
        return before.size != after.size || before.modifiedAt != after.modifiedAt || before.mode != after.mode
            || before.xattrs != after.xattrs || before.generation != after.generation
            || (before.version != after.version && !before.dirty.contains(.content))
    }

    /// The item's path; nil if the item is deleted.
    func path(of item: ItemKey) -> String? {
        guard let row = try? tree.index.row(key: item), !row.isDeleted else { return nil }
        return path(of: row)
    }

    private func path(of row: ItemRow) -> String? {
        if row.key == .root { return "" }
        guard let entry = row.entry else { return nil }
        // A folder that cannot be found is deleted, and with it every possible receiver.
        guard let folder = try? tree.path(of: entry.parent) else { return nil }
        return folder.isEmpty ? entry.name.description : "\(folder)/\(entry.name)"
    }
}
