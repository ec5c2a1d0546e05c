internal import UbiquityCore
internal import UbiquityIndex

/// Announces what a remote record changes beyond the item's visible fields: its versions, and that its local content is
/// no longer the newest. Pure.
struct RecordNews {
    let transaction: IndexTransaction

    func announceVersions(of item: RemoteItem, old: RemoteItem?) throws {
        guard let change = try versionsChange(from: old, to: item) else { return }
        try transaction.noteVersions(of: item.id, change)
    }

    private func versionsChange(from old: RemoteItem?, to item: RemoteItem) throws -> IndexEvent.VersionsChange? {
        if item.conflictCount != old?.conflictCount ?? 0 || item.conflicts != old?.conflicts ?? [] { return .conflicts }
        guard let old, item.hasHistory || old.hasHistory else { return nil }
        if let earlier = old.content?.version, earlier != item.content?.version, item.hasHistory {
            return .gained(earlier)
        }
        // If an item has lost a version, only that differs in its record, and the record does not name the version.
        var same = old
        same.revision = item.revision
        same.hasHistory = item.hasHistory
        guard same == item, try !transaction.decidedVersions(of: item.id).values.contains(.remove) else { return nil }
        return .lost(nil)
    }

    /// Announces that the local content is no longer the newest. The file does not show it, but its status does.
    func announceOutdated(_ item: RemoteItem, old: RemoteItem?) throws {
        guard let old, let content = item.content, content.version != old.content?.version,
            let row = try transaction.row(id: item.id), !row.isDeleted, row.contentState == .complete,
            row.version != content.version, !row.dirty.contains(.content)
        else { return }
        transaction.note(.attributes, before: row, after: row)
    }
}
