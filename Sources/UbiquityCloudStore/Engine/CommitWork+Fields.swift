internal import UbiquityCore
internal import UbiquityWire

// Second phase: all fields but the place. Each group of fields is decided separately.
extension CommitWork {
    func applyFields() throws {
        for (position, change) in request.changes.enumerated() where isApplied(position) {
            // A new item has its fields already; its content waits until its name is decided.
            guard case .put(let fields) = change.action, drafts[change.id]?.original != nil else { continue }
            guard try checkRetarget(fields, of: change.id) else {
                outcomes[position] = .unknownItem
                continue
            }
            try apply(fields, change, to: change.id)
        }
    }

    /// Applies the change's fields, except its place, to an existing item.
    func apply(_ fields: ChangedFields, _ change: ItemChange, to id: ItemID) throws {
        try update(id) { draft in
            if let mode = fields.mode, mode != draft.record.mode,
                let winner = decide(change, stamp(of: change, .mode), over: draft.record.stamps.mode)
            {
                draft.record.mode = mode
                draft.record.stamps.mode = winner
            }
            applyXattrs(fields, change, to: &draft.record)
            applyLinkTarget(fields, change, to: &draft)
        }
        try applyUnknown(fields, to: id)
        guard let content = fields.content else { return try applyTimes(fields, change, to: id) }
        // A content brings its own mtime; if it loses, the winner's mtime stays.
        switch try applyContent(content, fields, change, to: id) {
        case .isCurrent: try takeTimes(fields, stamp(of: change, .times), to: id)
        case .isSame: try applyTimes(fields, change, to: id)
        case .isAside: break
        }
    }

    /// Keeps the fields of a newer program. They have no stamps here, so the last commit wins.
    func applyUnknown(_ fields: ChangedFields, to id: ItemID) throws {
        guard !fields.unknownFields.isEmpty, let record = try record(id) else { return }
        let merged = try UnknownFields.merge(fields.unknownFields, into: record.unknownFields)
        try update(id) { $0.record.unknownFields = merged }
    }

    /// The stamp for the fields if the change wins; nil if the present value wins.
    ///
    /// A change that knew the last one wins whatever the clocks show, and its stamp is not older than the one it
    /// replaces. Otherwise a third device's change, made before both, could undo it.
    func decide(_ change: ItemChange, _ stamp: FieldStamp, over current: FieldStamp) -> FieldStamp? {
        if change.baseRevision >= current.revision {
            var winner = stamp
            winner.time = max(stamp.time, current.time)
            return winner
        }
        // Equal stamps: the same device repeats its change. (An older one of the same device comes from an index that a
        // power loss set back.)
        return stamp < current ? nil : stamp
    }

    /// A symlink's text is its content: a new text restores a deleted symlink.
    private func applyLinkTarget(_ fields: ChangedFields, _ change: ItemChange, to draft: inout ItemDraft) {
        guard let target = fields.linkTarget, target != draft.record.linkTarget,
            let winner = decide(change, stamp(of: change, .content), over: draft.record.stamps.content)
        else { return }
        draft.record.linkTarget = target
        draft.record.stamps.content = winner
        guard !draft.record.isLive else { return }
        draft.record.deletedAt = nil
        draft.record.stamps.existence = winner
        draft.needsSlot = true
    }

    private func applyTimes(_ fields: ChangedFields, _ change: ItemChange, to id: ItemID) throws {
        try update(id) { draft in
            guard let winner = decide(change, stamp(of: change, .times), over: draft.record.stamps.times)
            else { return }
            Self.setTimes(fields, winner, in: &draft.record)
        }
    }

    func takeTimes(_ fields: ChangedFields, _ stamp: FieldStamp, to id: ItemID) throws {
        try update(id) { draft in
            var stamp = stamp
            stamp.time = max(stamp.time, draft.record.stamps.times.time)
            Self.setTimes(fields, stamp, in: &draft.record)
        }
    }

    private static func setTimes(_ fields: ChangedFields, _ stamp: FieldStamp, in record: inout ItemRecord) {
        let created = fields.createdAt ?? record.createdAt
        let modified = fields.modifiedAt ?? record.modifiedAt
        guard created != record.createdAt || modified != record.modifiedAt else { return }
        record.createdAt = created
        record.modifiedAt = modified
        record.stamps.times = stamp
    }

    // MARK: Extended attributes

    func applyXattrs(_ fields: ChangedFields, _ change: ItemChange, to record: inout ItemRecord) {
        guard !fields.xattrsSet.isEmpty || !fields.xattrsRemoved.isEmpty else { return }
        // Look all up at once: a change may have thousands.
        let times = Dictionary(fields.earlier.map { ($0.field, $0.time) }) { first, _ in first }
        var values = Dictionary(record.xattrs.map { ($0.name, $0.value) }) { first, _ in first }
        var bytes = record.xattrs.reduce(0) { $0 + $1.name.count + $1.value.count }
        func set(_ name: [UInt8], _ value: [UInt8]?) {
            let stamp = stamp(at: times[.xattr(name)] ?? change.changedAt), known = values[name]
            guard known != value, isDecided(name, change, stamp, in: &record) else { return }
            let difference = Self.length(name, value) - Self.length(name, known)
            // Two devices together may have set more than an item can hold; then the later attributes are dropped, and
            // the result shows that.
            guard value == nil || bytes + difference <= Limits.maximumXattrBytes else { return }
            values[name] = value
            bytes += difference
        }
        for name in fields.xattrsRemoved { set(name, nil) }
        for attribute in fields.xattrsSet { set(attribute.name, attribute.value) }
        record.xattrs = values.map { Xattr(name: $0.key, value: $0.value) }.sorted()
        forgetOldRemovals(in: &record)
    }

    private static func length(_ name: [UInt8], _ value: [UInt8]?) -> Int { value.map { name.count + $0.count } ?? 0 }

    /// Whether this change of an attribute wins.
    private func isDecided(
        _ name: [UInt8], _ change: ItemChange, _ stamp: FieldStamp, in record: inout ItemRecord
    ) -> Bool {
        guard let current = record.stamps.xattrs[name] else {
            record.stamps.xattrs[name] = stamp
            return true
        }
        guard let winner = decide(change, stamp, over: current) else { return false }
        record.stamps.xattrs[name] = winner
        return true
    }

    /// Drops the oldest stamps of removed attributes beyond a limit. They are kept so that an older setting does not
    /// restore the attribute.
    private func forgetOldRemovals(in record: inout ItemRecord) {
        let present = Set(record.xattrs.map(\.name))
        let removed = record.stamps.xattrs.filter { !present.contains($0.key) }
        guard removed.count > CloudLimits.removedXattrStamps else { return }
        let oldest = removed.sorted { left, right in
            guard left.value.revision == right.value.revision else { return left.value.revision < right.value.revision }
            return left.key.lexicographicallyPrecedes(right.key)
        }
        for (name, _) in oldest.prefix(removed.count - CloudLimits.removedXattrStamps) {
            record.stamps.xattrs[name] = nil
        }
    }
}
