package import UbiquityCore
package import UbiquitySystem

/// Contents that no item references any more.
struct Retired {
    private(set) var leaving: Set<ContentID> = []
    var waiting: Set<ContentID> = []

    /// - Returns: the waiting contents, to be removed in this order.
    mutating func beginLeaving() -> [ContentID] {
        defer { waiting = [] }
        leaving.formUnion(waiting)
        return waiting.sorted { $0.rawValue < $1.rawValue }
    }

    /// - Parameter removed: how many of them were removed. The others wait for the next time.
    mutating func endLeaving(_ contents: [ContentID], removed: Int) {
        leaving.subtract(contents)
        waiting.formUnion(contents[removed...])
    }

    func contains(_ id: ContentID) -> Bool { waiting.contains(id) || leaving.contains(id) }
}

/// The backing files of this device's contents: `content/006/1a3f` is content 0x1a3f, complete or partial.
///
/// The store knows files only. The index records which content belongs to which item, and which is complete. A file
/// unknown to the index was left by a crash, and the start removes it (`all`, `remove`). Calls block.
package final class ContentStore: Sendable {
    /// For files that are prepared and then moved to their place. Emptied at each start.
    package let stagingDirectory: String

    let directory: String
    let replacements = Lock(Replacements())
    let retired = Lock(Retired())
    /// Folders whose sync has failed.
    private let failedFolders = Lock([String: Errno]())
    let folders: ContentFolders
    /// Foreign files (a link, a file) found in the place of folders when the store was opened, and their new paths. The
    /// target of a link is not touched.
    package let movedAside: [(name: String, path: String)]
    /// Nil if contents are always synced themselves.
    package let journal: ContentJournal?

    /// Opens the store in a container's state folder, and creates missing folders.
    /// - Parameters:
    ///   - folders: their number, up to 256. A simulator opens thousands of stores and uses few.
    ///   - journal: the journal of small synced contents.
    /// - Throws: the error of the disk.
    package init(
        stateFolder: String, folders count: Int = 256, journal: ContentJournal? = nil
    ) throws(UbiquityError) {
        self.journal = journal
        let directory = Path.join(stateFolder, "content")
        let stagingDirectory = Path.join(stateFolder, "staging")
        (folders, movedAside) = try describing("open the content store", at: stateFolder) { () throws(Errno) in
            try FileSystem.removeTree(stagingDirectory)
            try FileSystem.makeDirectories(stagingDirectory)
            try FileSystem.makeDirectories(directory)
            let isOld = try ContentFolders.isOld(in: directory)
            if !isOld { ContentFolders.spread(in: directory) }
            let folders = ContentFolders(count: count, isOld: isOld)
            var moved = [(String, String)]()
            for name in folders.names {
                let path = Path.join(directory, name)
                if let aside = try Self.makeFolder(path, aside: Self.asideDirectory(stateFolder)) {
                    moved.append((name, aside))
                }
            }
            try FileSystem.syncDirectory(directory)
            try FileSystem.syncDirectory(stateFolder)
            return (folders, moved)
        }
        self.directory = directory
        self.stagingDirectory = stagingDirectory
        journal?.setPrecursors { [weak self] in try self?.beginIndexSync() } end: { [weak self] in
            self?.endIndexSync()
        }
    }

    package func path(of id: ContentID) -> String { Path.join(folder(of: id), id.description) }

    private func folder(of id: ContentID) -> String {
        Path.join(directory, folders.names[folders.number(of: id)])
    }

    /// A new, empty backing file, open for reading and writing.
    /// - Throws: `.alreadyExists`, because an id is never used twice.
    package func create(_ id: ContentID) throws(UbiquityError) -> FileDescriptor {
        try FaultPoints.check("content.create")
        return try describing("create the content", at: path(of: id)) { () throws(Errno) in
            try FileDescriptor.open(path(of: id), [.readWrite, .create, .exclusive])
        }
    }

    /// Opens a content's file. A symbolic link in its place is not followed.
    /// - Throws: `.notFound` if there is no such file.
    package func open(_ id: ContentID, writable: Bool) throws(UbiquityError) -> FileDescriptor {
        try describing("open the content", at: path(of: id)) { () throws(Errno) in
            try FileDescriptor.openFile(path(of: id), [writable ? .readWrite : .readOnly, .noFollow])
        }
    }

    /// Removes a content's file. Processes that have it open continue to read it. A missing file is no error.
    package func remove(_ id: ContentID) throws(UbiquityError) {
        try FaultPoints.check("content.remove")
        try describing("remove the content", at: path(of: id)) { () throws(Errno) in
            do throws(Errno) { try FileSystem.unlink(path(of: id)) } catch .ENOENT { return }
        }
    }

    /// Records contents that no item references any more. Their files remain until `removeRetired`: after a loss of
    /// power the index may be an older one that still references them.
    package func retire(_ contents: [ContentID]) {
        retired.withLock { $0.waiting.formUnion(contents) }
        forgetFailures(of: contents)
    }

    /// Removes the files of contents retired before the call. They count as retired until they are removed.
    /// - Parameter makeDurable: syncs the index. It is not called if there is nothing to remove. If it fails, nothing
    ///   is removed.
    /// - Returns: how many were removed.
    @discardableResult
    package func removeRetired(_ makeDurable: () throws -> Void) throws -> Int {
        let contents = retired.withLock { $0.beginLeaving() }
        guard !contents.isEmpty else { return 0 }
        var removed = 0
        defer { retired.withLock { $0.endLeaving(contents, removed: removed) } }
        try makeDurable()
        for content in contents {
            try remove(content)
            removed += 1
        }
        return removed
    }

    package func exists(_ id: ContentID) throws(UbiquityError) -> Bool { try status(of: id) != nil }

    /// The file's status, or nil if there is no such file.
    package func status(of id: ContentID) throws(UbiquityError) -> FileStatus? {
        try describing("read the content's status", at: path(of: id)) { () throws(Errno) -> FileStatus? in
            do throws(Errno) { return try FileSystem.status(path(of: id)) } catch .ENOENT { return nil }
        }
    }

    /// Copies a content to a new one. The file system shares the bytes where it can. Holes remain holes.
    package func duplicate(_ source: ContentID, as id: ContentID) throws(UbiquityError) -> FileDescriptor {
        let original = try open(source, writable: false)
        let copy = try create(id)
        try describing("copy the content", at: path(of: source)) { () throws(Errno) in
            do throws(Errno) { return try copy.clone(original) } catch {
                guard [.EOPNOTSUPP, .EINVAL, .EXDEV, .ENOTTY, .ENOSYS].contains(error) else { throw error }
            }
            let size = try original.status().size
            try copy.truncate(to: size)
            for range in try original.dataRanges(in: 0..<size) {
                let length = range.upperBound - range.lowerBound
                _ = try copy.copy(from: original, at: range.lowerBound, to: range.lowerBound, count: length)
            }
        }
        return copy
    }

    /// Syncs the file's name. The caller syncs its bytes through the descriptor. After a failure every later call fails
    /// too: the kernel reports it once and then takes the folder for written.
    package func syncName(of id: ContentID) throws(UbiquityError) {
        let folder = folder(of: id)
        try describing("sync the content's folder", at: folder) { () throws(Errno) in
            if let failure = failedFolders.withLock({ $0[folder] }) { throw failure }
            do throws(Errno) { try FileSystem.syncDirectory(folder) } catch {
                failedFolders.withLock { $0[folder] = error }
                throw error
            }
        }
    }

    /// The same for several contents.
    package func syncNames(of ids: [ContentID]) throws(UbiquityError) {
        var synced: Set<String> = []
        for id in ids where synced.insert(folder(of: id)).inserted { try syncName(of: id) }
    }
}
