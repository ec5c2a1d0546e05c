import Logging
import UbiquityCloudClient
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Brings the documents of the account before into the container that is mounted now.
///
/// Each item is copied, then confirmed by the new cloud, then (unless it is a copy) deleted in the account before,
/// where it stays in the trash. A package is one item. Folders that are in both places are joined; a file, a link or a
/// package whose name is taken gets a number. Earlier versions stay with the account before.
package struct AccountImport: Sendable {
    /// The outcome of an import.
    package struct Report: Codable, Hashable, Sendable {
        /// An item that stays in the account before.
        package struct Skipped: Codable, Hashable, Sendable {
            package var path: String
            package var reason: String
        }

        /// Files, links and packages at their new places, those of an earlier run included.
        package var imported = 0
        /// Items deleted in the account before.
        package var removed = 0
        package var skipped: [Skipped] = []

        package init() {}
    }

    private let service: any CloudService
    private let target: String
    private let keepsOriginals: Bool
    private let packages: PackageRules
    private let journal: ImportJournal
    private let files: ImportFiles
    private let pool: BlockingPool

    /// - Parameters:
    ///   - service: the container of the account before.
    ///   - target: a folder of the new container, absolute.
    ///   - journal: the path of the journal.
    init(
        from service: any CloudService, to target: String, keepsOriginals: Bool, packages: PackageRules,
        journal path: String, pool: BlockingPool
    ) throws(UbiquityError) {
        self.service = service
        self.target = target
        self.keepsOriginals = keepsOriginals
        self.packages = packages
        journal = try ImportJournal(path)
        files = ImportFiles(service: service, pool: pool)
        self.pool = pool
    }

    /// An import from the embedded cloud of this machine, which is started if it does not run.
    /// - Parameter container: of the account before.
    package static func fromEmbeddedCloud(
        deviceFolder: String, container: ContainerID, to target: String, keepsOriginals: Bool
    ) throws -> AccountImport {
        guard let signIn = try SignIn.load(deviceFolder: deviceFolder) else {
            throw UbiquityError(
                .invalid, "this device uses the embedded cloud, so its documents are here already",
                remedy: "sign in to another account first: ubiquity login")
        }
        let data = try CloudFolder.path(option: nil), pool = BlockingPool(name: "import", threads: 2)
        let timekeeper = SystemTimekeeper()
        var generator = SourcedGenerator(SystemRandom())
        // A device of its own: the account before must see its deletions as those of another one.
        let client = try CloudClient(
            .unixSocket(path: CloudFolder.socket(data)), container: container, device: DeviceID(using: &generator),
            deviceName: ProcessHost.hostName)
        let cloud = EmbeddedCloud(
            data: data, pool: pool, timekeeper: timekeeper, logger: LogFile(path: nil).logger())
        let account = try AccountFolder(device: deviceFolder, signIn: signIn)
        return try AccountImport(
            from: EmbeddedCloudService(base: client, cloud: cloud, timekeeper: timekeeper), to: target,
            keepsOriginals: keepsOriginals, packages: UserConfiguration.load().packages,
            journal: Path.join(account.path, "import-\(container.name).journal"), pool: pool)
    }

    /// Imports the items at the paths, or all.
    /// - Parameters:
    ///   - paths: relative to the container of the account before; empty for all items.
    ///   - confirm: waits until the new cloud has these paths, and throws if it cannot.
    ///   - progress: called with the number of imported items.
    package func run(
        _ paths: [String], confirm: ([String]) async throws -> Void, progress: (Int) -> Void
    ) async throws -> Report {
        let tree = try await ImportTree.read(service)
        var run = Run()
        if paths.isEmpty {
            for item in tree.items(in: .root) { try await bring(item, into: target, tree, &run, progress) }
        }
        for path in paths {
            guard let item = tree.item(at: path) else {
                throw UbiquityError(.notFound, "the account before has no such item", at: path)
            }
            let parent = Path.parent(of: "/" + tree.path(of: item))
            let folder = parent == "/" ? target : target + parent
            try await pool.run {
                try describing("make the folder", at: folder) { () throws(Errno) in
                    try FileSystem.makeDirectories(folder, mode: 0o755)
                }
            }
            try await bring(item, into: folder, tree, &run, progress)
        }
        for start in stride(from: 0, to: run.placed.count, by: Self.confirmed) {
            let part = run.placed[start..<min(start + Self.confirmed, run.placed.count)]
            let waiting = part.filter { journal.line(of: $0.item)?.step == .placing }
            if !waiting.isEmpty {
                try await confirm(waiting.map(\.target))
                for placed in waiting { try journal.record(placed.item, at: placed.target, .confirmed) }
                FaultPoints.reach("import.confirmed")
            }
            if !keepsOriginals { run.report.removed += try await remove(Array(part), tree) }
        }
        if !keepsOriginals { run.report.removed += try await removeFolders(run.folders) }
        return run.report
    }

    /// Items confirmed at a time.
    private static let confirmed = 200

    private struct Placed: Sendable {
        var item: RemoteItem
        var target: String
    }

    private struct Run {
        var report = Report()
        /// In the order of the walk.
        var placed: [Placed] = []
        /// Joined folders, outermost first.
        var folders: [RemoteItem] = []
    }

    // MARK: Copy

    private func bring(
        _ item: RemoteItem, into folder: String, _ tree: ImportTree, _ run: inout Run, _ progress: (Int) -> Void
    ) async throws {
        let isPackage = item.kind == .directory && packages.isPackage(item.name, item.xattrs)
        guard item.kind != .directory || isPackage else {
            guard let path = try await join(item, folder) else {
                // A file has the folder's name: the folder is brought as a whole under another one.
                return try await place(item, folder, tree, &run, progress)
            }
            run.folders.append(item)
            for child in tree.items(in: item.id) { try await bring(child, into: path, tree, &run, progress) }
            return
        }
        try await place(item, folder, tree, &run, progress)
    }

    /// The path of an existing or new folder; nil if another item has its name.
    private func join(_ item: RemoteItem, _ folder: String) async throws -> String? {
        let path = Path.join(folder, item.name.description)
        return try await pool.run {
            try describing("make the folder", at: path) { () throws(Errno) -> String? in
                do throws(Errno) {
                    try FileSystem.makeDirectory(path, mode: 0o755)
                    try FileSystem.setPermissions(path, item.mode & 0o777 | 0o700)
                    return path
                } catch .EEXIST {
                    return try FileSystem.status(path).isDirectory ? path : nil
                }
            }
        }
    }

    private func place(
        _ item: RemoteItem, _ folder: String, _ tree: ImportTree, _ run: inout Run, _ progress: (Int) -> Void
    ) async throws {
        do {
            let path = try await placed(item, folder, tree)
            run.placed.append(Placed(item: item, target: path))
            run.report.imported += 1
            progress(run.report.imported)
        } catch let error as UbiquityError where error.code == .notUploadedYet || error.code == .damaged {
            // The other items are imported.
            run.report.skipped.append(Report.Skipped(path: tree.path(of: item), reason: error.message))
        }
    }

    /// Makes an item at its name or a numbered one, unless an earlier run did it.
    /// - Returns: its path.
    private func placed(_ item: RemoteItem, _ folder: String, _ tree: ImportTree) async throws -> String {
        let first = Path.join(folder, item.name.description)
        let known = journal.line(of: item)
        if let known, known.step != .placing { return known.target }
        let temporary = ImportFiles.temporaryPath(of: item, beside: first)
        if let known {
            // The rename may have happened or not.
            let (isPending, isThere) = try await pool.run {
                try describing("look at the item", at: known.target) { () throws(Errno) in
                    (try FileSystem.exists(temporary), try FileSystem.exists(known.target))
                }
            }
            if !isPending, isThere { return known.target }
        }
        try await pool.run {
            try describing("clear an interrupted import", at: temporary) { () throws(Errno) in
                do throws(Errno) { try FileSystem.removeTree(temporary) } catch .ENOENT {
                } catch .ENOTDIR { try FileSystem.unlink(temporary) }
            }
        }
        try await files.make(item, at: temporary, tree)
        FaultPoints.reach("import.made")
        var name = item.name, number = 2
        while true {
            let path = Path.join(folder, name.description)
            try journal.record(item, at: path, .placing)
            FaultPoints.reach("import.recorded")
            let isPlaced = try await pool.run {
                try describing("name the item", at: path) { () throws(Errno) -> Bool in
                    do throws(Errno) { try FileSystem.rename(temporary, to: path, .noReplace) } catch .EEXIST {
                        return false
                    }
                    return true
                }
            }
            if isPlaced {
                FaultPoints.reach("import.placed")
                return path
            }
            name = item.name.numbered(number)
            number += 1
        }
    }

    // MARK: Removal in the account before

    /// Deletes confirmed items.
    /// - Returns: how many.
    private func remove(_ placed: [Placed], _ tree: ImportTree) async throws -> Int {
        var count = 0
        for one in placed where journal.line(of: one.item)?.step == .confirmed {
            // A conflict that is not decided yet is not imported, so its item stays.
            guard one.item.conflictCount == 0 else { continue }
            count += try await delete(everything(in: one.item, tree))
            FaultPoints.reach("import.removed")
            try journal.record(one.item, at: one.target, .removed)
        }
        return count
    }

    /// The item and all items in it, innermost first.
    private func everything(in item: RemoteItem, _ tree: ImportTree) -> [RemoteItem] {
        tree.items(in: item.id).flatMap { everything(in: $0, tree) } + [item]
    }

    /// Deletes the joined folders that are empty now.
    private func removeFolders(_ folders: [RemoteItem]) async throws -> Int {
        guard !folders.isEmpty else { return 0 }
        let tree = try await ImportTree.read(service)
        // Innermost first. The cloud refuses to delete a folder with items in it.
        var empty = Set<ItemID>()
        for folder in folders.reversed() where tree.items(in: folder.id).allSatisfy({ empty.contains($0.id) }) {
            empty.insert(folder.id)
        }
        return try await delete(folders.reversed().filter { empty.contains($0.id) && tree.items[$0.id] != nil })
    }

    private func delete(_ items: [RemoteItem]) async throws -> Int {
        var count = 0
        for start in stride(from: 0, to: items.count, by: Self.deletedAtOnce) {
            var generator = SourcedGenerator(SystemRandom())
            let part = items[start..<min(start + Self.deletedAtOnce, items.count)]
            let request = CommitRequest(
                id: RequestID(using: &generator), device: Self.device, deviceName: "import",
                changes: part.map {
                    // The revision that was imported: an edit since then keeps the item.
                    ItemChange(
                        id: $0.id, kind: $0.kind, baseRevision: $0.revision, changedAt: SystemTimekeeper().now(),
                        action: .delete)
                })
            count += try await service.commit(request).results.count { $0.item?.isDeleted == true }
        }
        return count
    }

    private static let deletedAtOnce = 500
    /// The device of the deletions: "import" in ASCII. Ids of real devices are random.
    private static let device = DeviceID(high: 0x696D_706F_7274_0000, low: 0)
}
