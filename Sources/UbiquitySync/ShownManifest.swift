internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

extension IndexTransaction {
    /// The chunks of the version that the file shows. Nil if unknown, or if the file was edited and then deleted.
    ///
    /// The cloud may have a newer version that waits until a program closes the file, even across a crash of the
    /// daemon. Unchanged bytes are no edit that conflicts with it.
    func shownManifest(
        of row: ItemRow, _ remote: RemoteItem, _ known: RemoteContent, _ content: ContentID
    ) throws -> Manifest? {
        let isCurrent = known.version == row.version
        if isCurrent, let manifest = known.manifest { return manifest }
        guard let record = try contentRecord(content), record.version == row.version,
            isCurrent || !remote.isDeleted
        else { return nil }
        return record.manifest
    }
}
