package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// Chunks as files.
///
///     <directory>/incoming/<number>     stored by this process, not synced yet
///     <directory>/chunks/3a/3a41…       durable; the name is the id
///     <directory>/dropped/              files of earlier processes from incoming/, until the next collection
///
/// A chunk enters `chunks/` only by a rename after its file was synced. So every file there is complete, whenever
/// power failed. Files in `incoming/` are lost with the process: `missing` reports their chunks, and the uploader sends
/// them again. So no record of synced chunks is needed.
///
/// One process at a time may have the directory open: its owner holds a lock on the cloud's data.
package final class FileChunkStore: ChunkStore {
    /// Chunks that wait in `incoming/`, about 25 MiB of entries. Beyond that (uploads without a commit), every store
    /// makes its chunks durable.
    static let maximumStaged = 262_144

    let directory: String
    let timekeeper: any Timekeeper
    let staged = StagedChunks()
    let size: StoredSize
    /// The file system, held open since the start: syncfs(2) reports a failed write once to each open file, so one
    /// opened later could miss it. Locked during a sync, for the same reason (see `syncEverything`).
    let fileSystem: Lock<FileDescriptor>
    /// One call at a time syncs a file; each lock covers the files of some numbers.
    let syncs = (0..<64).map { _ in Lock(()) }
    /// One per folder: between the check of a chunk's time and its removal, no call may touch it.
    let collection = (0..<256).map { _ in Lock(()) }

    /// Opens or creates the store. Drops the chunks that an earlier process had not made durable.
    package init(directory: String, timekeeper: any Timekeeper) throws {
        self.directory = directory
        self.timekeeper = timekeeper
        fileSystem = Lock(try describing("open the chunk store", at: directory) { () throws(Errno) in
            try Self.makeFolders(in: directory)
            return try FileDescriptor.open(directory, [.readOnly, .directory])
        })
        size = try StoredSize(folder: directory)
        try describing("set aside chunks that are not durable", at: directory) { () throws(Errno) in
            try putLeftoversAside()
        }
    }

    package func store(_ chunks: [Chunk]) throws {
        var repaired = [ChunkID]()
        for chunk in chunks {
            try ChunkCheck.verify(chunk)
            if try store(chunk) { repaired.append(chunk.id) }
        }
        // A commit relies on the damaged copy already; no other commit will follow to make the repair durable.
        if !repaired.isEmpty { try makeDurable(repaired) }
        if staged.count > Self.maximumStaged { try makeDurable(chunks.map(\.id)) }
    }

    /// - Returns: whether it replaced a damaged copy.
    private func store(_ chunk: Chunk) throws -> Bool {
        let seen = staged.number(of: chunk.id)
        // Touch first, then check: from here on the collector spares it.
        let isThere = try touch(chunk.id, timekeeper.now())
        if isThere, try readable(chunk.id) == chunk.bytes {
            staged.noteSound(chunk.id)
            return false
        }
        let number = staged.drawNumber()
        try stage(chunk, number)
        if staged.enter(chunk.id, number, replacing: seen) {
            if let seen { discard(seen) }
            if !isThere { size.add(Int64(chunk.bytes.count)) }
        } else {
            discard(number)
        }
        return isThere
    }

    private func stage(_ chunk: Chunk, _ number: UInt64) throws {
        do {
            try FaultPoints.check("chunks.stage")
            try describing("store chunk \(chunk.id)", at: directory) { () throws(Errno) in
                let file = try FileDescriptor.open(incomingPath(number), [.writeOnly, .create, .exclusive])
                try file.write(chunk.bytes, at: 0)
                try file.setTimes(accessed: nil, modified: timekeeper.now())
            }
        } catch {
            discard(number)
            throw error
        }
    }

    /// Whether the chunk has a file, damaged or not.
    func holds(_ id: ChunkID) throws -> Bool {
        try describing("find chunk \(id)", at: directory) { () throws(Errno) in
            try wherever(id) { path throws(Errno) in try FileSystem.status(path) } != nil
        }
    }

    package func missing(of ids: [ChunkID]) throws -> [ChunkID] {
        try ids.filter { try length(of: $0) == nil }
    }

    package func read(_ id: ChunkID) throws -> [UInt8] {
        do {
            guard let bytes = try content(of: id) else { throw UbiquityError(.notFound, "there is no chunk \(id)") }
            try ChunkCheck.verify(stored: bytes, id, at: path(of: id))
            return bytes
        } catch let error as UbiquityError where error.code == .damaged {
            staged.noteDamaged(id)
            throw error
        }
    }

    package func length(of id: ChunkID) throws -> Int? {
        guard !staged.isDamaged(id) else { return nil }
        let size = try describing("find chunk \(id)", at: directory) { () throws(Errno) in
            try wherever(id) { path throws(Errno) in
                let status = try FileSystem.status(path)
                return status.isFile ? status.size : 0
            }
        }
        return size.flatMap { Int(exactly: $0) }.flatMap { ChunkCheck.lengths.contains($0) ? $0 : nil }
    }

    /// The stored copy; nil if it does not exist or the disk cannot read it.
    private func readable(_ id: ChunkID) throws -> [UInt8]? {
        do { return try content(of: id) } catch let error as UbiquityError where error.code == .damaged { return nil }
    }

    /// Errors of a disk for an unreadable place or a broken file system, and errors for a path that is not a file.
    private static let badPlaces: Set<Errno> = [.EIO, .EBADMSG, .EUCLEAN, .ENXIO, .EISDIR, .ELOOP]

    /// The stored copy without verification; nil if there is none.
    /// - Throws: `.damaged` if the disk cannot read it.
    private func content(of id: ChunkID) throws -> [UInt8]? {
        do throws(Errno) {
            return try wherever(id) { path throws(Errno) in
                try FaultPoints.fail("chunks.read", with: .EIO)
                let file = try FileDescriptor.openFile(path, [.readOnly, .noFollow])
                // A longer file is damaged; one byte too many is enough to detect that.
                let size = min(try file.status().size, Int64(ChunkCheck.lengths.upperBound) + 1)
                return try file.read(count: Int(size), at: 0)
            }
        } catch where Self.badPlaces.contains(error) {
            throw UbiquityError(
                .damaged, "the disk cannot read chunk \(id): \(error)", at: path(of: id),
                remedy: "check the cloud's disk; 'ubiquity doctor' on a device that has the content uploads it again")
        } catch {
            throw UbiquityError(error, doing: "read chunk \(id)", at: path(of: id))
        }
    }
}
