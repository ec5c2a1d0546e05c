internal import UbiquityCore
internal import UbiquityWire

// Fourth phase: deletions. An edit on another device wins over a deletion, and a folder is deleted only when it is
// empty.
extension CommitWork {
    func applyDeletions() throws {
        var folders: Set<ItemID> = []
        var others: [ItemID] = []
        for change in request.changes where change.action == .delete {
            guard let record = drafts[change.id]?.record, record.isLive else { continue }
            if change.kind == .hardLink {
                let name = try nameGivenUp(for: record)
                try update(change.id) { draft in
                    draft.record.deletedAt = now
                    if let name { (draft.record.parent, draft.record.name) = (name.parent, name.name) }
                    draft.record.stamps.existence = FieldStamp(
                        revision: revision.next, time: now, device: request.device)
                }
            } else if change.kind == .directory {
                folders.insert(change.id)
            } else if try !wasEdited(record, since: change) || !giveUpAnnouncements(of: change.id, change) {
                others.append(change.id)
            }
        }
        var remaining = try liveChildren(of: folders)
        let linked = linkedInCommit()
        for id in others where !linked.contains(id) {
            guard try !hasOtherLinks(id) || giveUpNames(of: id, &remaining) else { continue }
            try delete(id, &remaining)
        }
        try deleteEmpty(folders, &remaining)
    }

    /// Deletes the other names of a file whose content this device announced, never uploaded and now deletes: only that
    /// device had it, so the file could never be read.
    private func giveUpNames(of id: ItemID, _ remaining: inout [ItemID: Int]) throws -> Bool {
        guard let currentID = try record(id)?.version, let current = try version(currentID), isOwnAnnouncement(current)
        else { return false }
        for link in try state.liveLinks(to: id) where drafts[link] == nil { try delete(link, &remaining) }
        return true
    }

    /// Whether another device changed the content, or restored the item, after the state that the deleting device knew.
    /// The deleting device knew its own edits. But if one of them met another device's edit, it had not seen that edit,
    /// whichever of the two won.
    private func wasEdited(_ record: ItemRecord, since change: ItemChange) throws -> Bool {
        let stamps = record.stamps, isNews = stamps.content.revision > change.baseRevision
        let isOthers = try stamps.content.device != request.device
            || record.version.flatMap(version).map { $0.device != request.device } ?? false
            || conflicts(of: record.id).contains { $0.device != request.device }
        return isNews && isOthers
            || stamps.existence.revision > change.baseRevision && stamps.existence.device != request.device
    }

    /// The name that was removed, if the file moved to this link's place: users look for the link under the old name.
    private func nameGivenUp(for link: ItemRecord) throws -> Place? {
        guard let file = ItemID(bytes: link.linkTarget).flatMap({ drafts[$0] }), let before = file.original,
            before.isLive, file.record.parent == link.parent, file.record.name == link.name
        else { return nil }
        return Place(parent: before.parent, name: before.name)
    }

    /// The number of live items in each of the folders, with the other changes applied.
    private func liveChildren(of folders: Set<ItemID>) throws -> [ItemID: Int] {
        var counts: [ItemID: Int] = [:]
        for id in folders { counts[id] = try state.liveChildCount(of: id) }
        for draft in drafts.values {
            if let original = draft.original, original.isLive { counts[original.parent]? -= 1 }
            if draft.record.isLive { counts[draft.record.parent]? += 1 }
        }
        return counts
    }

    private func delete(_ id: ItemID, _ remaining: inout [ItemID: Int]) throws {
        try update(id) { draft in
            draft.record.deletedAt = now
            draft.record.stamps.existence = FieldStamp(revision: revision.next, time: now, device: request.device)
            remaining[draft.record.parent]? -= 1
        }
    }

    /// Deletes from the innermost outwards: deleting a folder may leave its parent empty.
    private func deleteEmpty(_ folders: Set<ItemID>, _ remaining: inout [ItemID: Int]) throws {
        var empty = order.filter { folders.contains($0) && remaining[$0] == 0 }
        while let id = empty.popLast() {
            try delete(id, &remaining)
            guard let parent = drafts[id]?.record.parent, folders.contains(parent), remaining[parent] == 0 else {
                continue
            }
            empty.append(parent)
        }
    }
}
