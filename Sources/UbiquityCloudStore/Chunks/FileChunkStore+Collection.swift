package import UbiquityCore
internal import UbiquitySystem

// Chunk times, and the removal of old chunks. A chunk's time is its file's mtime, which stays when the file is moved.
extension FileChunkStore {
    package func touch(_ ids: [ChunkID]) throws {
        let now = timekeeper.now()
        for id in ids { _ = try touch(id, now) }
    }

    /// - Returns: whether the chunk has a file.
    func touch(_ id: ChunkID, _ now: Timestamp) throws -> Bool {
        try describing("record the use of chunk \(id)", at: directory) { () throws(Errno) in
            try collection[Int(Self.folder(of: id))].withLock { _ throws(Errno) in
                try wherever(id) { path throws(Errno) in
                    try FileSystem.setTimes(path, accessed: nil, modified: now)
                } != nil
            }
        }
    }

    package func remove(_ ids: [ChunkID], storedBefore limit: Timestamp) throws {
        // Counted before anything goes: a file that goes while they are counted may be taken off twice.
        _ = try storedBytes()
        for id in ids {
            try describing("remove chunk \(id)", at: directory) { () throws(Errno) in
                try collection[Int(Self.folder(of: id))].withLock { _ throws(Errno) in
                    try remove(id, storedBefore: limit)
                }
            }
        }
    }

    private func remove(_ id: ChunkID, storedBefore limit: Timestamp) throws(Errno) {
        // Both files, if there are two: then the durable one is damaged. The entry stays while one of them does.
        let number = staged.number(of: id)
        if let number, try !removeFile(incomingPath(number), storedBefore: limit) { return }
        guard try removeFile(path(of: id), storedBefore: limit) else { return }
        if let number { staged.forget(id, number) }
        staged.noteSound(id)
    }

    /// - Returns: whether the file does not exist now.
    private func removeFile(_ path: String, storedBefore limit: Timestamp) throws(Errno) -> Bool {
        do throws(Errno) {
            let status = try FileSystem.status(path)
            guard status.modifiedAt < limit else { return false }
            try FileSystem.unlink(path)
            size.add(-status.size)
        } catch .ENOENT {
            return true
        }
        return true
    }

    package func forEachStored(_ body: (_ id: ChunkID, _ storedAt: Timestamp) throws -> Void) throws {
        try removeLeftovers()
        // Visit the staged chunks first: they may move to the folders meanwhile, and none must be omitted.
        for id in staged.ids { try visit(id, body) }
        for folder in UInt8.min...UInt8.max {
            let path = path(ofFolder: folder)
            let entries = try describing("list chunks", at: path) { () throws(Errno) in
                try FileSystem.entries(of: path)
            }
            for entry in entries {
                guard let id = ChunkID(hex: entry.text), staged.number(of: id) == nil else { continue }
                try visit(id, body)
            }
        }
    }

    /// Bytes of all chunks, and of those that are about to be stored. The first call counts the files. Whoever stores
    /// chunks calls it before.
    func storedBytes() throws -> Int64 {
        try size.total {
            var bytes: Int64 = 0
            for id in staged.ids { bytes += try fileSize(of: id) }
            for folder in UInt8.min...UInt8.max {
                let path = path(ofFolder: folder)
                let entries = try describing("list chunks", at: path) { () throws(Errno) in
                    try FileSystem.entries(of: path)
                }
                for id in entries.compactMap({ ChunkID(hex: $0.text) }) where staged.number(of: id) == nil {
                    bytes += try fileSize(of: id)
                }
            }
            return bytes
        }
    }

    private func fileSize(of id: ChunkID) throws -> Int64 {
        try describing("read the status of chunk \(id)", at: directory) { () throws(Errno) in
            try wherever(id) { path throws(Errno) in try FileSystem.status(path).size } ?? 0
        }
    }

    /// Leaves the sum for the next process, which drops all that is not durable. Nothing may be stored any more.
    func keepSize() throws {
        for id in staged.ids {
            let isDurableToo = try describing("find chunk \(id)", at: directory) { () throws(Errno) in
                try FileSystem.exists(path(of: id))
            }
            if !isDurableToo { size.add(-(try fileSize(of: id))) }
        }
        try size.keep()
    }

    private func visit(_ id: ChunkID, _ body: (_ id: ChunkID, _ storedAt: Timestamp) throws -> Void) throws {
        let storedAt = try describing("examine chunk \(id)", at: directory) { () throws(Errno) in
            try wherever(id) { path throws(Errno) in try FileSystem.status(path).modifiedAt }
        }
        if let storedAt { try body(id, storedAt) }
    }
}
