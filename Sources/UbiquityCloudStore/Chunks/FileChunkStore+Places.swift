internal import UbiquityCore
internal import UbiquitySystem

// Where the files are.
extension FileChunkStore {
    var incomingFolder: String { Path.join(directory, "incoming") }

    func incomingPath(_ number: UInt64) -> String { "\(directory)/incoming/\(number)" }
    func path(ofFolder folder: UInt8) -> String { "\(directory)/chunks/\(Hex.encode([folder]))" }

    func path(of id: ChunkID) -> String {
        let name = id.description
        return "\(directory)/chunks/\(name.prefix(2))/\(name)"
    }

    static func folder(of id: ChunkID) -> UInt8 { id.bytes[0] }

    /// Does `body` with the chunk's file: the newer one in `incoming/`, else the durable one. A file goes from there
    /// to here and never back, so that one that is moved meanwhile is found.
    /// - Returns: nil if the chunk has no file.
    func wherever<R>(_ id: ChunkID, _ body: (String) throws(Errno) -> R) throws(Errno) -> R? {
        do throws(Errno) {
            if let number = staged.number(of: id) { return try body(incomingPath(number)) }
        } catch .ENOENT {
            // It has been moved, or it is gone.
        }
        do throws(Errno) {
            return try body(path(of: id))
        } catch .ENOENT {
            return nil
        }
    }

    /// Makes what is missing of the folders, durably: a chunk in a folder that a power loss takes is lost with it.
    static func makeFolders(in directory: String) throws(Errno) {
        let chunks = Path.join(directory, "chunks")
        if try !FileSystem.exists(directory) {
            try FileSystem.makeDirectories(directory)
            try FileSystem.syncDirectory(Path.parent(of: directory))
        }
        for path in [chunks, Path.join(directory, "incoming")] where try !FileSystem.exists(path) {
            try FileSystem.makeDirectory(path)
        }
        let present = Set(try FileSystem.entries(of: chunks).map(\.text))
        for folder in UInt8.min...UInt8.max where !present.contains(Hex.encode([folder])) {
            try FileSystem.makeDirectory(Path.join(chunks, Hex.encode([folder])))
        }
        // Each time: the process that made them may have ended before it came to this.
        try FileSystem.syncDirectory(chunks)
        try FileSystem.syncDirectory(directory)
    }

    func dropLeftovers() throws(UbiquityError) {
        try describing("drop what was not stored wholly", at: incomingFolder) { () throws(Errno) in
            for entry in try FileSystem.entries(of: incomingFolder) {
                try FileSystem.removeTree(Path.join(incomingFolder, entry.text))
            }
        }
    }

    /// Removes a file in `incoming/` that nobody needs. Should that fail, it goes with the next start.
    func discard(_ number: UInt64) { try? FileSystem.unlink(incomingPath(number)) }
}
