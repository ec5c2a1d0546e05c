package import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

// Moves chunks from `incoming/` to `chunks/`, durably.
extension FileChunkStore {
    /// Above this number, files or folders are synced by one syncfs(2) instead of an fsync(2) each. Measured on a busy
    /// disk: 8 to 12 ms for each fsync, 10 to 30 ms for a syncfs of 17 to 256 chunks. But a syncfs also waits for
    /// writes of other programs, so few chunks are synced one by one.
    static let maximumSingleSyncs = 8

    package func makeDurable(_ ids: [ChunkID]) throws {
        var work = try outstanding(ids)
        try syncFiles(work.files)
        var lost = [ChunkID]()
        for (id, number) in work.files {
            if try move(id, number) {
                work.folders.insert(Self.folder(of: id))
            } else {
                staged.forget(id, number)
                size.forget()
                lost.append(id)
            }
        }
        FaultPoints.reach("chunks.moved")
        try syncFolders(work.folders)
        staged.noteSynced(folders: work.folders)
        for (id, number) in work.files { staged.forget(id, number) }
        guard lost.isEmpty else { throw MissingChunks(ids: lost) }
    }

    /// The files and folders to sync for these chunks.
    private struct Outstanding {
        var files: [(id: ChunkID, number: UInt64)] = []
        /// Folders of durable files that this process has not synced yet: an earlier process may have moved the files
        /// there and ended before its sync.
        var folders: Set<UInt8> = []
    }

    private func outstanding(_ ids: [ChunkID]) throws -> Outstanding {
        var work = Outstanding()
        var absent = [ChunkID](), seen = Set<ChunkID>()
        for id in ids where seen.insert(id).inserted {
            // An entry is removed only after its folder is synced: an existing chunk without one is durable.
            if let number = staged.number(of: id) {
                work.files.append((id, number))
            } else if try length(of: id) == nil {
                absent.append(id)
            } else if !staged.isSynced(folder: Self.folder(of: id)) {
                work.folders.insert(Self.folder(of: id))
            }
        }
        guard absent.isEmpty else { throw MissingChunks(ids: absent) }
        return work
    }

    /// After a failed sync the kernel treats pages as clean that never reached the disk, so such a file is discarded.
    private func syncFiles(_ files: [(id: ChunkID, number: UInt64)]) throws {
        guard files.count <= Self.maximumSingleSyncs else { return try syncEverything() }
        for (id, number) in files {
            // Locked until the file is discarded: a second sync after this one would not report the failure.
            try syncs[Int(number % UInt64(syncs.count))].withLock { _ in
                do {
                    try FaultPoints.check("chunks.sync")
                    try describing("make chunk \(id) durable", at: incomingPath(number)) { () throws(Errno) in
                        try syncFile(number)
                    }
                } catch {
                    staged.forget(id, number)
                    discard(number)
                    size.forget()
                    throw error
                }
            }
        }
    }

    private func syncFile(_ number: UInt64) throws(Errno) {
        do throws(Errno) {
            try FileDescriptor.open(incomingPath(number), .readOnly).sync()
        } catch .ENOENT {
            // Another call has synced and moved it meanwhile, or it is gone: `move` finds out.
        }
    }

    private func syncFolders(_ folders: Set<UInt8>) throws {
        guard folders.count <= Self.maximumSingleSyncs else { return try syncEverything() }
        for folder in folders.sorted() {
            let path = path(ofFolder: folder)
            try describing("make chunks durable", at: path) { () throws(Errno) in
                try FileSystem.syncDirectory(path)
            }
        }
    }

    /// Syncs the file system. A failure does not name the file, so all chunks that are not durable are discarded. That
    /// happens before another caller continues, whose sync would not report the failure.
    private func syncEverything() throws {
        try fileSystem.withLock { root in
            do {
                try FaultPoints.check("chunks.sync")
                try describing("make chunks durable", at: directory) { () throws(Errno) in try root.syncFileSystem() }
            } catch {
                for number in staged.forgetAll() { discard(number) }
                size.forget()
                throw error
            }
        }
    }

    /// - Returns: false if the file is gone.
    private func move(_ id: ChunkID, _ number: UInt64) throws -> Bool {
        let path = path(of: id)
        return try describing("move chunk \(id) into place", at: path) { () throws(Errno) in
            do throws(Errno) {
                try FileSystem.rename(incomingPath(number), to: path)
                return true
            } catch .EISDIR {
                // Another program has created a folder there; only an empty one may be removed.
                do throws(Errno) { try FileSystem.removeDirectory(path) } catch .ENOENT {} catch .ENOTDIR {}
                try FileSystem.rename(incomingPath(number), to: path)
                return true
            } catch .ENOENT {
                // Another call for the same chunk was first, or its file was discarded.
                return try FileSystem.exists(path)
            }
        }
    }
}
