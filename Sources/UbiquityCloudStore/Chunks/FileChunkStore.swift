package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// Chunks as files.
///
///     <directory>/incoming/<number>     stored by this process, not synced yet
///     <directory>/chunks/3a/3a41…       durable; the name is the id
///     <directory>/dropped/              what earlier processes left in incoming/, until the next collection
///
/// A chunk enters `chunks/` only by a rename after its file has been synced, so whatever stands there was written
/// wholly, whenever the power went. What stands in `incoming/` is lost with the process: its uploader asks again,
/// because `missing` reports it. No mark of what has been synced need be kept.
///
/// One process at a time may have the directory open: its owner holds a lock on the cloud's data.
package final class FileChunkStore: ChunkStore {
    /// Chunks that wait in `incoming/`, about 25 MiB of entries. While there are more (uploads that no commit
    /// follows), every store makes durable what it stores.
    static let maximumStaged = 262_144

    let directory: String
    let timekeeper: any Timekeeper
    let staged = StagedChunks()
    /// The file system, held open since the start: syncfs(2) reports a failed write to each open file once, so one
    /// opened later could miss it. Locked while it syncs, for the same reason (see `syncEverything`).
    let fileSystem: Lock<FileDescriptor>
    /// One file is synced by one call at a time; each lock is for the files of some numbers.
    let syncs = (0..<64).map { _ in Lock(()) }
    /// One per folder: between looking at a chunk's time and removing it, nobody may touch it.
    let collection = (0..<256).map { _ in Lock(()) }

    /// Opens or makes the store. Drops what an earlier process had not made durable.
    package init(directory: String, timekeeper: any Timekeeper) throws {
        self.directory = directory
        self.timekeeper = timekeeper
        fileSystem = Lock(try describing("open the chunk store", at: directory) { () throws(Errno) in
            try Self.makeFolders(in: directory)
            return try FileDescriptor.open(directory, [.readOnly, .directory])
        })
        try describing("put aside what was not durable", at: directory) { () throws(Errno) in
            try putLeftoversAside()
        }
    }

    package func store(_ chunks: [Chunk]) throws {
        var repaired = [ChunkID]()
        for chunk in chunks {
            try ChunkCheck.verify(chunk)
            if try store(chunk) { repaired.append(chunk.id) }
        }
        // Some commit relies on a damaged copy already; no other will follow and make the repair durable.
        if !repaired.isEmpty { try makeDurable(repaired) }
        if staged.count > Self.maximumStaged { try makeDurable(chunks.map(\.id)) }
    }

    /// - Returns: whether it replaced a damaged copy.
    private func store(_ chunk: Chunk) throws -> Bool {
        let seen = staged.number(of: chunk.id)
        // First touched, then looked at: from here on collection spares it.
        let isThere = try touch(chunk.id, timekeeper.now())
        if isThere, try readable(chunk.id) == chunk.bytes {
            staged.noteSound(chunk.id)
            return false
        }
        let number = staged.drawNumber()
        try stage(chunk, number)
        if staged.enter(chunk.id, number, replacing: seen) {
            if let seen { discard(seen) }
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
        let size = try describing("look for chunk \(id)", at: directory) { () throws(Errno) in
            try wherever(id) { path throws(Errno) in
                let status = try FileSystem.status(path)
                return status.isFile ? status.size : 0
            }
        }
        return size.flatMap { Int(exactly: $0) }.flatMap { ChunkCheck.lengths.contains($0) ? $0 : nil }
    }

    /// The stored copy; nil if there is none, or none that the disk can read.
    private func readable(_ id: ChunkID) throws -> [UInt8]? {
        do { return try content(of: id) } catch let error as UbiquityError where error.code == .damaged { return nil }
    }

    /// What a disk says of a place that it cannot read, or whose file system it finds broken; and of what is no file.
    private static let badPlaces: Set<Errno> = [.EIO, .EBADMSG, .EUCLEAN, .ENXIO, .EISDIR, .ELOOP]

    /// The stored copy as it is; nil if there is none.
    /// - Throws: `.damaged` if the disk cannot read it.
    private func content(of id: ChunkID) throws -> [UInt8]? {
        do throws(Errno) {
            return try wherever(id) { path throws(Errno) in
                try FaultPoints.fail("chunks.read", with: .EIO)
                let file = try FileDescriptor.openFile(path, [.readOnly, .noFollow])
                // A longer file is damaged; one byte too many shows it.
                let size = min(try file.status().size, Int64(ChunkCheck.lengths.upperBound) + 1)
                return try file.read(count: Int(size), at: 0)
            }
        } catch where Self.badPlaces.contains(error) {
            throw UbiquityError(
                .damaged, "the disk cannot read chunk \(id): \(error)", at: path(of: id),
                remedy: "look at the cloud's disk; 'ubiquity doctor' on a device that has the content sends it again")
        } catch {
            throw UbiquityError(error, doing: "read chunk \(id)", at: path(of: id))
        }
    }
}
