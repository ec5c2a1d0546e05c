internal import UbiquityCore
internal import UbiquityWire

// Third phase: names and parents of items that were there before. Then the folders that must come back.
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

    /// A folder cannot come to lie in itself: of two moves that do that together, the one that came later is undone.
    ///
    /// Undoing one can close another circle, which leads through it, so that is looked for until there is none. With
    /// all undone the tree is the old one, which has none.
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

    /// The circles that some of the folders lie in or lead to; each is found once.
    private func circles(through folders: [ItemID]) throws -> [[ItemID]] {
        var seen = Set<ItemID>(), circles = [[ItemID]]()
        for folder in folders {
            var path = [ItemID](), next = folder
            while next != .root, seen.insert(next).inserted, let record = try record(next) {
                path.append(next)
                next = record.parent
            }
            // Met before: on this way, or on an earlier one, which has told of its circle.
            if let start = path.firstIndex(of: next) { circles.append(Array(path[start...])) }
        }
        return circles
    }

    /// The circle that the folder lies in itself; nil if it does not.
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

    /// What is placed in a deleted folder, or comes back in one, brings the folder back, and those above it.
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
