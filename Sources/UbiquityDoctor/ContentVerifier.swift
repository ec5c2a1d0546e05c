internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

/// Compares the bytes of backing files with the chunks of the items' versions.
struct ContentVerifier: Check {
    let context: CheckContext

    /// The chunks of the local version, or nil if they are unknown.
    func expectedManifest(_ row: ItemRow, _ record: ContentRecord?) throws -> Manifest? {
        if let record, record.version == row.version { return record.manifest }
        let known = try index.read { try $0.remote(id: row.id) }?.content
        return known?.version == row.version ? known?.manifest : nil
    }

    func damage(of content: ContentID, _ manifest: Manifest) throws -> String? {
        let file: FileDescriptor
        do { file = try store.open(content, writable: false) } catch {
            return error.code == .notFound ? nil : "it cannot be read: \(error.message)"
        }
        let layout = try ChunkLayout(manifest)
        var bad = 0
        for index in manifest.indices {
            let range = layout.range(of: index)
            do {
                let bytes = try file.read(count: range.count, at: range.lowerBound)
                if bytes.count != range.count || ChunkNaming.name(of: bytes) != manifest[index].id { bad += 1 }
            } catch { bad += 1 }
        }
        return bad == 0 ? nil : "\(bad) of \(manifest.count) chunks are damaged"
    }

    /// Whether content and time both differ from the version's, and the index has the new ones. Then a program has
    /// changed the file, and only the dirty bit is lost.
    func isChangedWithoutMark(_ row: ItemRow, _ known: RemoteItem) throws -> Bool {
        guard row.kind == .file, row.contentState == .complete, row.modifiedAt != known.modifiedAt,
            let version = known.content, version.version == row.version,
            let content = row.content, let status = try store.status(of: content), status.kind == .file,
            status.size == row.size
        else { return false }
        guard status.size == version.size else { return true }
        let record = try index.read { try $0.contentRecord(content) }
        guard let manifest = try expectedManifest(row, record) else { return false }
        return try damage(of: content, manifest) != nil
    }
}
