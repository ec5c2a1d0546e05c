internal import UbiquityCore
internal import UbiquityWire

// Third phase: names and parents of existing items. Then the folders that must be restored.
extension CommitWork {
    func applyPlaces() throws {
        var movedFolders: [ItemID] = []
        for (position, change) in request.changes.enumerated() where isApplied(position) {
            guard let place = place(position), let draft = drafts[change.id], draft.original != nil,
                place.parent != draft.record.parent || place.name != draft.record.name,
                let winner = decide(change, stamp(of: change, .place), over: draft.record.stamps.place)
            else { continue }
            let moves = place.parent != draft.record.parent
            try update(change.id) { draft in
                draft.record.parent = place.parent
                draft.record.name = place.name
                draft.record.stamps.place = winner
                draft.needsSlot = draft.record.isLive
            }
            if moves, change.kind == .directory { movedFolders.append(change.id) }
        }
        try undoCycles(movedFolders)
    }

    /// Prevents a folder from being moved into itself: of two moves that together cause that, the later one is undone.
    ///
    /// Undoing one move can close another circle through it, so the search continues until there is none. With all
    /// moves undone the tree is the old one, which has no circle.
    private func undoCycles(_ moved: [ItemID]) throws {
        let places = Dictionary(moved.enumerated().map { ($1, $0) }) { first, _ in first }
        var undone = Set<ItemID>(), circles = try circles(through: moved)
        while let circle = circles.popLast() {
            let moves = circle.filter { !undone.contains($0) }.compactMap { id in places[id].map { ($0, id) } }
            guard let (_, id) = moves.min(by: { $0.0 < $1.0 }) else { continue }
            undone.insert(id)
            try undoMove(of: id)
            if let next = try self.circle(through: id) { circles.append(next) }
        }
    }

    private func undoMove(of id: ItemID) throws {
        try update(id) { draft in
            guard let original = draft.original else { return }
            draft.record.parent = original.parent
            draft.record.name = original.name
            draft.record.stamps.place = original.stamps.place
            draft.needsSlot = draft.record.isLive && !original.isLive
        }
    }

    /// The circles that contain some of the folders or lie above them; each is found once.
    private func circles(through folders: [ItemID]) throws -> [[ItemID]] {
        var seen = Set<ItemID>(), circles = [[ItemID]]()
        for folder in folders {
            var path = [ItemID](), next = folder
            while next != .root, seen.insert(next).inserted, let record = try record(next) {
                path.append(next)
                next = record.parent
            }
            // Seen before: on this path, or on an earlier one, which has reported its circle.
            if let start = path.firstIndex(of: next) { circles.append(Array(path[start...])) }
        }
        return circles
    }

    /// The circle that contains the folder; nil if there is none.
    private func circle(through id: ItemID) throws -> [ItemID]? {
        var circle = [id], seen: Set<ItemID> = [id]
        var parent = try record(id)?.parent
        while let next = parent, next != .root {
            // A circle further up, without this folder, is for its own members to undo.
            if next == id { return circle }
            guard seen.insert(next).inserted else { return nil }
            circle.append(next)
            parent = try record(next)?.parent
        }
        return nil
    }

    func liesInItself(_ id: ItemID) throws -> Bool { try circle(through: id) != nil }

    /// Restores the deleted parents of items that are placed or restored in them, up to the top.
    func bringBackParents() throws {
        for id in order {
            guard let draft = drafts[id], draft.needsSlot, draft.record.isLive else { continue }
            var parent = draft.record.parent
            while parent != .root, let record = try record(parent), !record.isLive {
                try update(parent) { draft in
                    draft.record.deletedAt = nil
                    draft.record.stamps.existence = FieldStamp(
                        revision: revision.next, time: now, device: request.device)
                    draft.needsSlot = true
                }
                parent = record.parent
            }
        }
    }
}
