import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Makes a version a document of its own.
struct VersionPlacement: MountCommand {
    let parts: MountParts

    /// Keeps a conflict version as a document beside the file: "report (laptop).txt".
    func keep(_ version: RemoteVersion, of row: ItemRow) async throws -> String {
        guard let entry = row.entry else { throw UbiquityError(.notFound, "the file is gone") }
        let name = VersionNames.document(version, of: entry.name)
        // A synced file stays synced under an ignored name, but a new document does not: other devices would have
        // neither the version nor the document.
        if !row.isExcluded {
            try await pool.run { [parts] in
                // A rule may have just been written.
                parts.fileSystem.refreshIgnoreFiles()
                try parts.index.requireSynced(name, row.kind, in: entry.parent)
            }
        }
        return try await place(version, of: row, in: entry.parent, named: name, orNumbered: true)
    }

    /// The folder and the name of a new path. Throws `.notFound`, `.alreadyExists`.
    func newPlace(_ path: String) throws -> (ItemRow, ItemName) {
        var names = try ItemTree.names(of: path)
        guard !names.contains(.versionsFolder) else {
            throw UbiquityError(.notPermitted, "a '.versions' folder contains only versions", at: path)
        }
        guard let name = names.popLast() else { throw UbiquityError(.alreadyExists, "the path exists", at: path) }
        guard let folder = try parts.index.read({ try $0.row(path: names) }), folder.kind == .directory,
            !folder.isDeleted
        else { throw UbiquityError(.notFound, "the target folder does not exist", at: path) }
        guard try parts.index.child(of: folder.key, named: name) == nil else {
            throw UbiquityError(.alreadyExists, "an item of this name exists", at: path)
        }
        return (folder, name)
    }

    /// Downloads a version and places it as a document.
    func place(
        _ version: RemoteVersion, of row: ItemRow, in folder: ItemKey, named name: ItemName, orNumbered: Bool
    ) async throws -> String {
        if row.kind == .directory {
            return try await PackageVersions(parts: parts).place(
                version, of: row, in: folder, named: name, orNumbered: orNumbered)
        }
        let content = try await engine.versionDownloads.copy(version)
        return try await pool.run(evenIfCancelled: true) { [self] in
            let placed: ItemName
            do {
                guard let parent = try parts.index.row(key: folder) else {
                    throw UbiquityError(.notFound, "the folder is gone")
                }
                var candidate = name, number = 2
                while orNumbered, try parts.index.child(of: folder, named: candidate) != nil {
                    candidate = name.numbered(number)
                    number += 1
                }
                try parts.contents.noteReplacement(content)
                let place = VersionPlace(parent: parent.ino, name: candidate, isExclusive: true)
                _ = try parts.index.place(version, of: row.key, content: content, ino: nil, at: place)
                placed = candidate
            } catch {
                try parts.contents.remove(content)
                throw error
            }
            let above = try parts.tree.path(of: folder) ?? ""
            return above.isEmpty ? placed.description : "\(above)/\(placed)"
        }
    }
}
