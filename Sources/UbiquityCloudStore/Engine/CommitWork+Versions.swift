internal import UbiquityCore
internal import UbiquityWire

// What people decide about versions, and what they take back out of the trash. A decision about something that is gone
// or decided already is none: two devices may ask for the same.
extension CommitWork {
    func applyVersionActions() throws {
        for (position, change) in request.changes.enumerated() where isApplied(position) {
            guard case .versions(let actions) = change.action else { continue }
            for action in actions { try apply(action, change) }
        }
    }

    private func apply(_ action: VersionAction, _ change: ItemChange) throws {
        guard let known = try version(action.version), known.item == change.id else { return }
        switch action {
        case .resolve: try resolve(known.id)
        case .remove: known.role == .conflict ? try resolve(known.id) : try forget(known)
        case .restore(_, let new, let base): try restore(known, as: new, base: base, change)
        }
    }

    private func resolve(_ id: VersionID) throws {
        guard var version = try version(id), version.role == .conflict else { return }
        version.role = .resolved
        version.supersededAt = now
        put(version)
        try update(version.item) { draft in
            draft.record.conflictCount -= 1
            draft.record.conflictBytes -= version.size
        }
    }

    private func forget(_ version: VersionRecord) throws {
        guard version.role != .current else { return }
        removedVersions.insert(version.id)
        let others = try state.history(of: version.item) + (changedVersionsOfItem[version.item] ?? []).filter {
            versions[$0]?.role == .history && versions[$0]?.isAvailable == true
        }
        try update(version.item) { draft in
            draft.record.hasHistory = others.contains { !removedVersions.contains($0) }
            // If nothing of the record differs, devices show the versions all the same.
            draft.isTouched = true
        }
    }

    /// The old content as a new version: the one decided about stays what it is, and who has edited since has not lost.
    private func restore(_ known: VersionRecord, as new: VersionID, base: VersionID?, _ change: ItemChange) throws {
        // A package's state is put back by a device, as changes of its members.
        guard let manifest = known.manifest, try record(known.item)?.kind == .file else { return }
        var fields = ChangedFields(modifiedAt: change.changedAt)
        let content = ContentChange(version: new, baseVersion: base, size: known.size, manifest: manifest)
        fields.content = content
        // First, for the new version may lose itself: then it is what is in conflict, and not kept already.
        try resolve(known.id)
        if try applyContent(content, fields, change, to: change.id, isRestored: true) == .isCurrent {
            try takeTimes(fields, stamp(of: change), to: change.id)
        }
    }

    // MARK: The trash

    func applyUndeletions() throws {
        var placed: [ItemChange] = []
        for (position, change) in request.changes.enumerated() where isApplied(position) {
            guard case .undelete(let place) = change.action, drafts[change.id]?.record.isLive == false else { continue }
            try update(change.id) { draft in
                let stamp = stamp(of: change)
                draft.record.deletedAt = nil
                draft.record.stamps.existence = stamp
                draft.needsSlot = true
                guard let place else { return }
                draft.record.parent = place.parent
                draft.record.name = place.name
                draft.record.stamps.place = stamp
            }
            if place != nil { placed.append(change) }
        }
        // Once all are placed: what comes back together may have lain the other way round.
        for change in placed {
            guard let parent = try record(change.id).flatMap({ try record($0.parent) }), parent.kind == .directory
            else { throw UbiquityError(.notFound, "the folder to restore to is not there") }
            guard try change.kind != .directory || !liesInItself(change.id) else {
                throw UbiquityError(.invalid, "a folder cannot be restored into itself")
            }
        }
    }
}
