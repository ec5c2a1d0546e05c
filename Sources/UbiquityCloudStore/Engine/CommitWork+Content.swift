internal import UbiquityCore
internal import UbiquityWire

// Contents of files. No acknowledged content is lost: a content that does not become current is kept as history or as a
// conflict version.
extension CommitWork {
    enum ContentResult {
        /// It is the current version now.
        case isCurrent
        /// The current version is already this one, or equal to it.
        case isSame
        /// Another version is current.
        case isAside
    }

    /// A version with the changes of this commit so far.
    func version(_ id: VersionID) throws -> VersionRecord? {
        guard !removedVersions.contains(id) else { return nil }
        if let known = versions[id] { return known }
        let stored = try state.version(id)
        if let stored { versions[id] = stored }
        return stored
    }

    func put(_ version: VersionRecord) {
        versions[version.id] = version
        guard isChangedVersion.insert(version.id).inserted else { return }
        changedVersions.append(version.id)
        changedVersionsOfItem[version.item, default: []].append(version.id)
    }

    /// - Parameter name: the name that the same change gives the file, if any: the version is saved under it.
    private func make(
        _ content: ContentChange, _ change: ItemChange, item: ItemRecord, name: ItemName?, modifiedAt: Timestamp?
    ) -> VersionRecord {
        if let manifest = content.manifest { newManifests.append(manifest) }
        return VersionRecord(
            id: content.version, item: item.id, role: .current, size: content.size,
            modifiedAt: corrected(modifiedAt ?? change.time(of: .content)), device: request.device,
            deviceName: request.deviceName, baseVersion: content.baseVersion, savedName: name ?? item.name,
            manifest: content.manifest, savedAt: now)
    }

    /// The content of a file that this commit creates.
    func makeFirstContent(of id: ItemID) throws {
        guard let position = positions[id], case .put(let fields) = request.changes[position].action,
            let content = fields.content
        else { return }
        guard try version(content.version) == nil else { throw taken(content.version) }
        let change = request.changes[position]
        try update(id) { draft in
            put(make(content, change, item: draft.record, name: nil, modifiedAt: draft.record.modifiedAt))
            draft.record.version = content.version
            draft.record.size = content.size
        }
    }

    private func taken(_ version: VersionID) -> UbiquityError {
        UbiquityError(.invalid, "version \(version) exists already with other content or at another item")
    }

    /// Applies a content to an existing item.
    /// - Parameter isRestored: whether the user restored it deliberately, whatever its base.
    func applyContent(
        _ content: ContentChange, _ fields: ChangedFields, _ change: ItemChange, to id: ItemID, isRestored: Bool = false
    ) throws -> ContentResult {
        guard let item = try record(id), let currentID = item.version else {
            throw UbiquityError(.damaged, "file \(id) has no version")
        }
        guard let current = try version(currentID) else { return try replaceLost(content, fields, change, item) }
        if let known = try version(content.version) { return try complete(known, content, change, item) }
        guard !isRepeatedAnnouncement(content) else { return .isAside }
        let isGivenUp = try isGivenUp(item)
        try revive(id, change)
        try dropOwnAnnouncedConflicts(of: id)
        if let manifest = content.manifest, manifest == current.manifest {
            try supersede(content.baseVersion, of: id)
            return .isSame
        }
        if !isGivenUp, !isRestored, try isUnedited(content, of: item, beside: current) { return .isAside }
        if content.manifest != nil { try supersede(content.baseVersion, of: id) }
        var new = make(content, change, item: item, name: fields.place?.name, modifiedAt: fields.modifiedAt)
        let isNext = content.baseVersion == current.id || isOwnAnnouncement(current)
        let isLater = isLater(new, change, than: current, of: item)
        guard isNext || isGivenUp || isLater else {
            try keepAside(new, beside: current, change)
            return .isAside
        }
        if isNext || isLater {
            // A version is not older than its base, whatever times its author or a copying tool gave it. Otherwise a
            // third device's edit of an older state, made before both, could win against it.
            new.modifiedAt = max(new.modifiedAt, current.modifiedAt)
        }
        try makeCurrent(new, insteadOf: current, as: isNext || isGivenUp ? .history : .conflict, change)
        return .isCurrent
    }

    /// Whether the content equals its base: programs save a document they opened, changed or not, and that is no edit
    /// beside another device's. (Beside an own version, whose acceptance the device does not know of, it is the later
    /// one.) Not for a deleted item: there it may be a file made anew.
    private func isUnedited(
        _ content: ContentChange, of item: ItemRecord, beside current: VersionRecord
    ) throws -> Bool {
        guard item.isLive, current.device != request.device, let manifest = content.manifest,
            let base = try content.baseVersion.flatMap(version)
        else { return false }
        return base.item == item.id && base.manifest == manifest
    }

    /// Whether the new one of two versions wins, when neither was made from the other.
    ///
    /// A device that conflicts with itself has forgotten, by a power loss, that the cloud accepted the current version.
    /// Of the two, the one made later by the device's clock wins. File times do not tell: a file renamed over another
    /// brings its own time, and a change half lost in the power loss has the time of the complete change.
    private func isLater(
        _ new: VersionRecord, _ change: ItemChange, than current: VersionRecord, of item: ItemRecord
    ) -> Bool {
        let known = item.stamps.content
        guard current.device == request.device, known.device == request.device else { return new.wins(over: current) }
        return stamp(of: change, .content).time > known.time
    }

    /// Retires the base if it is a conflict version, whether the new version wins or loses. So editing on from a losing
    /// version, as with a program that keeps the file open, creates one conflict and not one per save.
    private func supersede(_ base: VersionID?, of id: ItemID) throws {
        guard let base = try base.flatMap(version), base.item == id, base.role == .conflict else { return }
        try retire(base)
        try update(id) { draft in
            draft.record.conflictCount -= 1
            draft.record.conflictBytes -= base.size
        }
    }

    /// Replaces a current version whose record is lost: nothing can be in conflict with it.
    private func replaceLost(
        _ content: ContentChange, _ fields: ChangedFields, _ change: ItemChange, _ item: ItemRecord
    ) throws -> ContentResult {
        guard content.manifest != nil, try version(content.version) == nil else { return .isAside }
        try revive(item.id, change)
        if let lost = item.version, lost != content.version {
            // A version with the same content, or an unreadable one, is dropped; otherwise it becomes an earlier
            // version.
            let manifest = try state.manifest(ofUnreadable: lost)
            if manifest == nil || manifest == content.manifest { removedVersions.insert(lost) } else {
                lostVersions.append(lost)
            }
        }
        put(make(content, change, item: item, name: fields.place?.name, modifiedAt: fields.modifiedAt))
        try update(item.id) { draft in
            draft.record.version = content.version
            draft.record.size = content.size
            draft.record.stamps.content = stamp(of: change, .content)
            draft.isTouched = true
        }
        try resolveEqualConflicts(of: item.id)
        return .isCurrent
    }

    /// Makes the edit win over a deletion.
    private func revive(_ id: ItemID, _ change: ItemChange) throws {
        try update(id) { draft in
            guard !draft.record.isLive else { return }
            draft.record.deletedAt = nil
            draft.record.stamps.existence = stamp(of: change, .content)
            draft.needsSlot = true
        }
    }

    func makeCurrent(
        _ new: VersionRecord, insteadOf old: VersionRecord, as role: VersionRecord.Role, _ change: ItemChange
    ) throws {
        var new = new
        new.role = .current
        new.supersededAt = nil
        put(new)
        try update(new.item) { draft in
            draft.record.version = new.id
            draft.record.size = new.size
            draft.record.stamps.content = stamp(of: change, .content)
        }
        if role == .conflict {
            try keepAside(old, beside: new, change)
        } else {
            try retire(old)
        }
        try resolveEqualConflicts(of: new.item)
    }

    /// Keeps the losing version as a conflict, unless that edit is kept already. If it has the content of another
    /// conflict version, it replaces that one: a user may have copied that version over the file and resolve it next.
    /// The user's choice must not be dropped.
    private func keepAside(_ loser: VersionRecord, beside winner: VersionRecord, _ change: ItemChange) throws {
        var loser = loser
        loser.ancestor = try commonAncestor(of: loser, and: winner)
        let equal = try conflicts(of: loser.item).filter { $0.hasContent(of: loser) }
        if equal.contains(where: { $0.isSameEdit(as: loser) }) {
            try retire(loser)
        } else {
            for known in equal { try retire(known) }
            loser.role = .conflict
            loser.supersededAt = nil
            put(loser)
            try update(loser.item) { draft in
                draft.record.conflictCount += 1 - equal.count
                draft.record.conflictBytes += loser.size * Int64(1 - equal.count)
            }
        }
        try update(loser.item) { $0.record.stamps.content = stamp(of: change, .content) }
    }

    /// The common ancestor of both versions. The ancestor recorded by an earlier conflict counts, because the versions
    /// between may be gone.
    private func commonAncestor(of loser: VersionRecord, and winner: VersionRecord) throws -> VersionID? {
        let others = Set(try bases(of: winner).map(\.id))
        for base in try bases(of: loser) {
            if others.contains(base.id) { return base.id }
            if let known = base.ancestor { return known }
        }
        return loser.baseVersion
    }

    /// The chain of base versions, the nearest first, as far back as the cloud keeps it.
    private func bases(of version: VersionRecord) throws -> [VersionRecord] {
        var found = [VersionRecord](), next = version.baseVersion
        while found.count < CloudLimits.ancestorSteps, let id = next, let base = try self.version(id),
            base.item == version.item
        {
            found.append(base)
            next = base.baseVersion
        }
        return found
    }

    func retire(_ version: VersionRecord) throws {
        var version = version
        version.role = .history
        version.supersededAt = now
        put(version)
        // An announced content that never came is no history.
        if version.isAvailable { try update(version.item) { $0.record.hasHistory = true } }
    }

    /// Unresolved conflict versions with the changes of this commit so far, in the order of their ids.
    func conflicts(of item: ItemID) throws -> [VersionRecord] {
        var found: [VersionID: VersionRecord] = [:]
        for stored in try state.conflicts(of: item) { found[stored.id] = try version(stored.id) }
        for id in changedVersionsOfItem[item] ?? [] { found[id] = versions[id] }
        return found.values.filter { $0.role == .conflict }.sorted { $0.id < $1.id }
    }

    /// Resolves conflicts that are the same edit as the current version, made independently, also if that shows only
    /// later.
    ///
    /// A later edit that reaches the content of a conflict version (by copying it over the file) leaves the conflict
    /// undecided: that version has another base.
    private func resolveEqualConflicts(of id: ItemID) throws {
        guard let item = try record(id), item.conflictCount > 0, let currentID = item.version,
            let current = try version(currentID)
        else { return }
        var kept: [VersionRecord] = []
        // Of equal ones the last to arrive is kept, as above.
        for conflict in try conflicts(of: id).sorted(by: { ($0.savedAt, $0.id) > ($1.savedAt, $1.id) }) {
            if conflict.isSameEdit(as: current) || kept.contains(where: { $0.hasContent(of: conflict) }) {
                try retire(conflict)
            } else {
                kept.append(conflict)
            }
        }
        try update(id) { draft in
            draft.record.conflictCount = kept.count
            draft.record.conflictBytes = kept.reduce(0) { $0 + $1.size }
        }
    }

    // MARK: Known versions

    /// Handles a version that the cloud knows: the chunks of an announced version have arrived, or the version is sent
    /// again.
    private func complete(
        _ known: VersionRecord, _ content: ContentChange, _ change: ItemChange, _ item: ItemRecord
    ) throws -> ContentResult {
        guard known.item == item.id else { throw taken(known.id) }
        if known.id == item.version, change.baseRevision >= item.stamps.existence.revision {
            // The sender knew of the deletion and restores the content.
            try revive(item.id, change)
        }
        let result = known.id == item.version ? ContentResult.isSame : .isAside
        guard let manifest = content.manifest else { return result }
        if let existing = known.manifest {
            guard existing == manifest else { throw taken(known.id) }
            return result
        }
        var version = known
        version.manifest = manifest
        version.size = content.size
        newManifests.append(manifest)
        // A version replaced before its content arrived is kept from now on.
        if version.supersededAt != nil { version.supersededAt = now }
        put(version)
        try update(item.id) { draft in
            switch version.role {
            case .current:
                draft.record.size = version.size
                draft.isTouched = true
            case .conflict: draft.record.conflictBytes += version.size - known.size
            case .history:
                draft.record.hasHistory = true
                draft.isTouched = true
            case .resolved: break
            }
        }
        try resolveEqualConflicts(of: item.id)
        return result
    }
}
