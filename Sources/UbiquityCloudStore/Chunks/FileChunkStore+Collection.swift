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
        try describing("note the use of chunk \(id)", at: directory) { () throws(Errno) in
            try collection[Int(Self.folder(of: id))].withLock { _ throws(Errno) in
                try wherever(id) { path throws(Errno) in
                    try FileSystem.setTimes(path, accessed: nil, modified: now)
                } != nil
            }
        }
    }

    package func remove(_ ids: [ChunkID], storedBefore limit: Timestamp) throws {
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
            guard try FileSystem.status(path).modifiedAt < limit else { return false }
            try FileSystem.unlink(path)
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

    private func visit(_ id: ChunkID, _ body: (_ id: ChunkID, _ storedAt: Timestamp) throws -> Void) throws {
        let storedAt = try describing("look at chunk \(id)", at: directory) { () throws(Errno) in
            try wherever(id) { path throws(Errno) in try FileSystem.status(path).modifiedAt }
        }
        if let storedAt { try body(id, storedAt) }
    }
}
