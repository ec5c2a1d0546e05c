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
    /// Undoing one can close another circle, so all are looked at again until none is left. With all undone the tree
    /// is the old one, which has none.
    private func undoCycles(_ moved: [ItemID]) throws {
        var remaining = moved
        while let index = try remaining.firstIndex(where: { try liesInItself($0) }) {
            let id = remaining.remove(at: index)
            try update(id) { draft in
                guard let original = draft.original else { return }
                draft.record.parent = original.parent
                draft.record.name = original.name
                draft.record.stamps.place = original.stamps.place
                draft.needsSlot = draft.record.isLive && !original.isLive
            }
        }
    }

    func liesInItself(_ id: ItemID) throws -> Bool {
        var seen: Set<ItemID> = [id]
        var parent = try record(id)?.parent
        while let next = parent, next != .root {
            // A circle further up, without this folder, is for its own members to undo.
            if next == id { return true }
            guard seen.insert(next).inserted else { return false }
            parent = try record(next)?.parent
        }
        return false
    }

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
