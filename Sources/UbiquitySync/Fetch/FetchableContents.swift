internal import UbiquityCore
internal import UbiquityIndex

/// Decides from the index which contents can be fetched now. It holds nothing.
struct FetchableContents: SyncRoom {
    let context: SyncContext
    let downloads: DownloadTable

    /// The item's row, if its content is still missing and can be fetched now.
    func placeholder(_ key: ItemKey, _ reader: IndexReader) throws -> ItemRow? {
        guard let row = try reader.row(key: key), row.kind == .file, row.contentState != .complete, !row.isDeleted,
            try canDownload(row, reader), try !reader.isRecord(row.id, .awaitingPackage)
        else { return nil }
        return row
    }

    func awaitsReplacement(_ row: ItemRow, _ reader: IndexReader) throws -> Bool {
        guard row.kind == .file, row.contentState == .complete, !row.isWriting, !row.isDeleted,
            !row.dirty.contains(.content), !agenda.paused.contains(row.key)
        else { return false }
        return try canDownload(row, reader)
    }

    /// Whether the cloud has a content for the row that is not here and can be fetched now.
    private func canDownload(_ row: ItemRow, _ reader: IndexReader) throws -> Bool {
        guard !problems.isHeld(.download, of: row.key), downloads.download(of: row.key)?.isBackground != true,
            let content = try reader.remote(id: row.id)?.content
        else { return false }
        return content.isAvailable && (row.contentState != .complete || content.version != row.version)
    }
}
