internal import UbiquityCore
internal import UbiquityWire

// Hard links: names that are items of their own. The target of a live link is live. So, as with an edit, a deletion of
// the target by a device that did not know the link fails. A link that is created or restored also restores its target.
extension CommitWork {
    private func target(of link: ItemRecord) -> ItemID? {
        guard link.kind == .hardLink, let id = ItemID(bytes: link.linkTarget) else { return nil }
        return mergedInto[id] ?? id
    }

    private func canHaveLinks(_ record: ItemRecord) -> Bool { record.kind == .file || record.kind == .symlink }

    /// Drops new links to items that neither the cloud nor this commit has.
    func dropLinksToUnknownItems() throws {
        for (position, change) in request.changes.enumerated() where change.kind == .hardLink && isApplied(position) {
            guard let draft = drafts[change.id], draft.original == nil, let id = target(of: draft.record) else {
                continue
            }
            guard let record = try record(id) else {
                drafts[change.id] = nil
                outcomes[position] = .unknownItem
                continue
            }
            try requireLinkable(record, by: change.id)
        }
    }

    /// Checks a change of a known link's target: the same rules apply as for a new link.
    /// - Returns: false if the target is unknown; then no part of the change is applied.
    /// - Throws: `.invalid` if the target is the link itself, another link, a folder or not an item id.
    func checkRetarget(_ fields: ChangedFields, of link: ItemID) throws -> Bool {
        guard let known = try record(link), known.kind == .hardLink, let target = fields.linkTarget,
            target != known.linkTarget
        else { return true }
        guard let id = ItemID(bytes: target) else {
            throw UbiquityError(.invalid, "the target of link \(link) is not an item id")
        }
        guard let record = try record(mergedInto[id] ?? id) else { return false }
        try requireLinkable(record, by: link)
        return true
    }

    private func requireLinkable(_ record: ItemRecord, by link: ItemID) throws {
        guard canHaveLinks(record) else {
            throw UbiquityError(.invalid, "link \(link) leads to item \(record.id), a \(record.kind)")
        }
    }

    /// Restores the targets of links that are created, restored or retargeted. A link is deleted if its target was
    /// purged, cannot have links, or was given up by the only device that had its content.
    func bringBackLinked() throws {
        for id in order {
            guard let draft = drafts[id], draft.record.isLive, draft.record.kind == .hardLink,
                draft.needsSlot || draft.original?.linkTarget != draft.record.linkTarget
            else { continue }
            guard let target = target(of: draft.record), let record = try record(target), canHaveLinks(record),
                try !isGivenUp(record)
            else {
                try update(id) { draft in
                    draft.record.deletedAt = draft.original?.deletedAt ?? now
                    draft.needsSlot = false
                }
                continue
            }
            guard !record.isLive else { continue }
            try update(target) { draft in
                draft.record.deletedAt = nil
                draft.record.stamps.existence = FieldStamp(revision: revision.next, time: now, device: request.device)
                draft.needsSlot = true
            }
        }
    }

    /// The targets of this commit's links that are live with its changes applied.
    func linkedInCommit() -> Set<ItemID> {
        Set(drafts.values.lazy.filter(\.record.isLive).compactMap { self.target(of: $0.record) })
    }

    /// Whether a link outside this commit leads to the item.
    func hasOtherLinks(_ id: ItemID) throws -> Bool {
        try state.liveLinks(to: id).contains { drafts[$0] == nil }
    }

    /// Redirects links to the item into which their target was merged.
    func redirectLinks() throws {
        guard !mergedInto.isEmpty else { return }
        for id in order {
            guard let draft = drafts[id], draft.record.kind == .hardLink, let target = target(of: draft.record),
                target.bytes != draft.record.linkTarget
            else { continue }
            try update(id) { $0.record.linkTarget = target.bytes }
        }
    }
}
