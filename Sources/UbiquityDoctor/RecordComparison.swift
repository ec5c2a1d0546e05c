internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

// Comparisons of an examination: a row with its record, and two records of one item.

extension ItemRow {
    /// The names of a clean item's fields that differ from the record.
    func differences(from item: RemoteItem, _ entry: Entry, _ folder: ItemRow) -> [String] {
        var found = [String]()
        if kind != item.kind { found.append("kind") }
        if folder.id != item.parent { found.append("folder") }
        if entry.name != item.name { found.append("name") }
        if kind == .symlink || kind == .hardLink, linkTarget != item.linkTarget { found.append("target") }
        // The other fields belong to the link's target.
        guard kind != .hardLink else { return found }
        if !showsMode(of: item) { found.append("mode") }
        if xattrs != item.xattrs { found.append("attributes") }
        // A folder's times change with its items.
        if kind != .directory, modifiedAt != item.modifiedAt { found.append("time") }
        if kind == .file, version != item.content?.version {
            found.append("version")
        } else if kind == .file, size != item.content?.size {
            found.append("size")
        }
        return found
    }
}

extension RemoteItem {
    /// Whether both records are equal, apart from conflict versions, which are queried separately.
    func isSame(as other: RemoteItem) -> Bool {
        revision == other.revision && kind == other.kind && isDeleted == other.isDeleted && parent == other.parent
            && name == other.name && mode == other.mode && modifiedAt == other.modifiedAt && xattrs == other.xattrs
            && createdAt == other.createdAt && conflictCount == other.conflictCount
            // Versions expire without a commit, so devices are not notified.
            && (hasHistory || !other.hasHistory)
            && linkTarget == other.linkTarget && content?.version == other.content?.version
            && content?.size == other.content?.size && content?.isAvailable == other.content?.isAvailable
            && content?.manifest == other.content?.manifest
    }
}
