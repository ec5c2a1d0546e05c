internal import UbiquityCore
internal import UbiquityWire

// The user's decisions about versions, and restores from the trash. A decision about a missing or decided version has
// no effect: two devices may send the same one.
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
            // Even if no field of the record differs, devices must show the versions.
            draft.isTouched = true
        }
    }

    /// Makes the old content a new version. The restored version stays unchanged, and edits since do not lose.
    private func restore(_ known: VersionRecord, as new: VersionID, base: VersionID?, _ change: ItemChange) throws {
        // A device restores a package's state, by changes of its members.
        guard let manifest = known.manifest, try record(known.item)?.kind == .file else { return }
        var fields = ChangedFields(modifiedAt: change.changedAt)
        let content = ContentChange(version: new, baseVersion: base, size: known.size, manifest: manifest)
        fields.content = content
        // Resolve first: the new version may lose itself, and must then be the conflict, not count as kept already.
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
        // After all are placed: items restored together may have been nested the other way round.
        for change in placed {
            guard let parent = try record(change.id).flatMap({ try record($0.parent) }), parent.kind == .directory
            else { throw UbiquityError(.notFound, "the target folder does not exist") }
            guard try change.kind != .directory || !liesInItself(change.id) else {
                throw UbiquityError(.invalid, "a folder cannot be restored into itself")
            }
        }
    }
}
