internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Handles a cloud's record that differs from its earlier state at the same revision.
///
/// If the index's record and the tree agree, the cloud is damaged, and the local item is uploaded again.
struct CloudRecordCheck: Check {
    let context: CheckContext

    /// - Parameters:
    ///   - item: the cloud's current record.
    ///   - known: the cloud's earlier record at the same revision.
    /// - Returns: nil if the local record is wrong, or if no local state can replace the cloud's.
    func examine(_ item: RemoteItem, _ known: RemoteItem) throws -> Finding? {
        guard let row = try index.read({ try $0.row(id: item.id) }), row.dirty.isEmpty, !row.isExcluded,
            !row.flags.contains(.lingering),
            let folder = try row.entry.flatMap({ entry in try index.row(key: entry.parent) }), let entry = row.entry,
            try index.read({ try $0.isRecord(item.id, .settled) }),
            row.differences(from: known, entry, folder).isEmpty
        else { return nil }
        let name = try subject(row)
        // These fields are sent with a creation only.
        guard row.kind == item.kind, known.linkTarget == item.linkTarget else {
            let way = "create it again on this device, where it is unchanged: copy it, and remove the old one"
            return Finding(
                .recordDiffers, name, "the cloud reports another kind or link target than before",
                options.repairs ? .unrepaired(way) : .found)
        }
        var fields = row.fieldsToSend(insteadOf: item, folder)
        if item.content?.isSame(as: known.content) == false {
            guard try isWhole(row, known) else { return nil }
            fields.insert(.content)
        }
        guard !fields.isEmpty else { return nil }
        if options.repairs { try send(fields, of: row, insteadOf: item) }
        return Finding(
            .recordDiffers, name, "the cloud reports other values for item \(item.id) than before",
            options.repairs ? .repaired("uploaded again from here") : .found)
    }

    /// Whether the content is complete here and matches the version at the cloud.
    private func isWhole(_ row: ItemRow, _ known: RemoteItem) throws -> Bool {
        guard row.contentState == .complete, let content = row.content, let version = known.content,
            let status = try store.status(of: content), status.isFile, status.size == version.size
        else { return false }
        guard let manifest = try version.manifest ?? index.read({ try $0.contentRecord(content) })?.manifest else {
            return false
        }
        return try ContentVerifier(context: context).damage(of: content, manifest) == nil
    }

    private func send(_ fields: DirtyFields, of row: ItemRow, insteadOf item: RemoteItem) throws {
        try index.write(.startup) { transaction in
            guard let current = try transaction.row(key: row.key), current == row else { return }
            try transaction.setRemote(item, state: .settled)
            var next = current
            if fields.contains(.content) {
                next.generation += 1
                next.nextVersion = nil
                // It replaces the cloud's version, whatever its base.
                next.version = item.content?.version
                if let content = row.content { try transaction.forgetContent(content) }
            }
            let names = Set(row.xattrs).symmetricDifference(item.xattrs).map(\.name)
            try transaction.markDirty(&next, fields, xattrs: Set(names), now: timekeeper.now())
            try transaction.update(next, before: current)
        }
    }
}

extension ItemRow {
    /// The fields of a clean item that differ at the cloud, without the content.
    fileprivate func fieldsToSend(insteadOf item: RemoteItem, _ folder: ItemRow) -> DirtyFields {
        var fields = DirtyFields()
        if folder.id != item.parent || entry?.name != item.name { fields.insert(.place) }
        // The other fields belong to the link's target.
        guard kind != .hardLink else { return fields }
        if !showsMode(of: item) { fields.insert(.mode) }
        if xattrs != item.xattrs { fields.insert(.xattrs) }
        // A folder's times change with its items.
        if kind != .directory, modifiedAt != item.modifiedAt { fields.insert(.times) }
        return fields
    }
}

extension RemoteContent {
    fileprivate func isSame(as other: RemoteContent?) -> Bool {
        version == other?.version && size == other?.size && manifest == other?.manifest
    }
}
