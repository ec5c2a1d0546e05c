import UbiquityContent
import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Versions of packages: restores them in place, or as separate documents.
struct PackageVersions: MountCommand {
    let parts: MountParts

    /// Gives a package the state of a version, which is uploaded like any change. Throws `.busy` if the package's
    /// present state is not in the cloud.
    func putBack(_ version: RemoteVersion, of row: ItemRow) async throws {
        try await waitForRest(of: row)
        try await download(version) { [self] tree, contents in
            try parts.index.place(tree, contents: contents, version, of: row.key, at: nil)
        }
    }

    /// Waits until no program writes in the package and its last changes are uploaded. Otherwise the replaced state,
    /// which has no version yet, would be lost.
    private func waitForRest(of row: ItemRow) async throws {
        let isAtRest = try await engine.wait(atMost: VersionDecisions.limit) { [self] in
            try await pool.run { [index = parts.index] in
                try index.read { try !$0.members(of: row.key, limit: .max).contains(where: \.isWriting) }
            }
        }
        guard isAtRest else {
            throw UbiquityError(
                .busy, "a program is writing in the package", at: row.entry?.name.description ?? "",
                remedy: "close its files there, and try again")
        }
        let check = WaitCheck(parts: parts, wanted: WaitRequest(paths: [], uploaded: true), tops: [row.key])
        let limit = engine.connection.isOnline ? VersionDecisions.limit : .zero
        let isUp = try await engine.wait(atMost: limit) { [self] in
            try await pool.run { try check.holds(graceIsOver: true) }
        }
        guard isUp else {
            throw UbiquityError(
                .busy, "its last changes have not been uploaded and would be lost",
                at: row.entry?.name.description ?? "", remedy: "run 'ubiquity wait --uploaded' first")
        }
    }

    /// Makes a version a package of its own.
    /// - Returns: its path.
    func place(
        _ version: RemoteVersion, of row: ItemRow, in folder: ItemKey, named name: ItemName, orNumbered: Bool
    ) async throws -> String {
        let placed = Lock(name)
        try await download(version) { [self] tree, contents in
            guard let parent = try parts.index.row(key: folder) else {
                throw UbiquityError(.notFound, "the folder is gone")
            }
            var candidate = name, number = 2
            while orNumbered, try parts.index.child(of: folder, named: candidate) != nil {
                candidate = name.numbered(number)
                number += 1
            }
            placed.withLock { [candidate] in $0 = candidate }
            return try parts.index.place(
                tree, contents: contents, version, of: row.key,
                at: VersionPlace(parent: parent.ino, name: candidate, isExclusive: true))
        }
        let above = try await pool.run { [self] in try parts.tree.path(of: folder) ?? "" }
        let shown = placed.withLock { $0 }.description
        return above.isEmpty ? shown : "\(above)/\(shown)"
    }

    /// Downloads all files of a version before the first of them is placed.
    /// - Parameter use: returns the contents that are no longer needed. If it throws, the new ones are dropped.
    private func download(
        _ version: RemoteVersion,
        _ use: @escaping @Sendable (PackageTree, [[ItemName]: ContentID]) throws -> [ContentID]
    ) async throws {
        let tree = try await engine.versionDownloads.tree(of: version)
        var contents = [[ItemName]: ContentID]()
        do {
            for member in tree.members {
                guard let file = version.file(member) else { continue }
                contents[member.path] = try await engine.versionDownloads.copy(file)
            }
            engine.discard(try await pool.run(evenIfCancelled: true) { [contents, store = parts.contents] in
                for content in contents.values { try store.noteReplacement(content) }
                return try use(tree, contents)
            })
        } catch {
            engine.discard(Array(contents.values))
            throw error
        }
    }
}
