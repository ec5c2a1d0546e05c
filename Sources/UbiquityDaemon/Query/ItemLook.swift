import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityVFS

/// Looks items up for queries and for `status`. The values are those of the attributes `user.ubiquity.*`, made by the
/// same code. It reads no content and does not ask the cloud.
struct ItemLook: Sendable {
    let index: ItemIndex
    let engine: SyncEngine
    let container: ContainerID

    /// - Parameter row: the item at the path (for a hard link, the file it leads to).
    func facts(of row: ItemRow, _ reader: IndexReader) throws -> ItemFacts {
        let remote = try reader.remote(id: row.id), conflicts = try reader.conflictCount(of: row)
        guard row.kind == .directory else {
            let status = engine.status.status(of: row, remote, conflicts: conflicts)
            return ItemFacts(
                row: row, remote: remote, conflicts: conflicts, transfer: EngineTransfers.transfer(status),
                container: container)
        }
        let sums = try reader.sums(below: row.key)
        let activity = try FolderActivity(below: row.key, sums, engine.status, reader)
        return ItemFacts(
            row: row, remote: remote, conflicts: conflicts, transfer: EngineTransfers.transfer(activity),
            container: container, sums: sums, isPackage: index.isPackage(row))
    }

    func report(of row: ItemRow, at path: String, _ reader: IndexReader) throws -> ItemReport {
        try ItemReport(facts(of: row, reader), path: path)
    }

    static func word(_ kind: ItemKind) -> String {
        switch kind {
        case .file: "file"
        case .directory: "directory"
        case .symlink: "symlink"
        // A link is shown as its file; this is one whose file has not arrived yet.
        case .hardLink: "file"
        case .fifo, .socket, .characterDevice, .blockDevice: "special"
        }
    }
}

extension ItemReport {
    init(_ facts: ItemFacts, path: String) {
        let row = facts.row
        func flag(_ attribute: StatusAttribute) -> Bool { facts.text(of: attribute) == "1" }
        func text(_ attribute: StatusAttribute) -> String? {
            let text = facts.text(of: attribute)
            return text.isEmpty ? nil : text
        }
        let size = facts.isPackage ? facts.sums?.bytes ?? 0 : row.size
        self.init(path: path, kind: ItemLook.word(row.kind), size: size, container: facts.container.name)
        isUbiquitous = flag(.isUbiquitous)
        downloadingStatus = DownloadingStatus(rawValue: facts.text(of: .downloadingStatus)) ?? .current
        isDownloading = flag(.isDownloading)
        percentDownloaded = Double(facts.text(of: .percentDownloaded)) ?? 0
        downloadingError = text(.downloadingError)
        downloadingErrorCode = text(.downloadingErrorCode)
        downloadRequested = flag(.downloadRequested)
        isUploaded = flag(.isUploaded)
        isUploading = flag(.isUploading)
        percentUploaded = Double(facts.text(of: .percentUploaded)) ?? 0
        uploadingError = text(.uploadingError)
        uploadingErrorCode = text(.uploadingErrorCode)
        conflictCount = facts.conflicts
        hasUnresolvedConflicts = facts.conflicts > 0
        isExcludedFromSync = flag(.isExcludedFromSync)
        isPackage = flag(.isPackage)
        isPinned = flag(.isPinned)
        itemID = text(.itemID)
        versionID = text(.versionID)
    }
}
