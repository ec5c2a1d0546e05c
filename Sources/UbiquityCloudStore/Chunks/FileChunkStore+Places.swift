internal import UbiquityCore
internal import UbiquitySystem

// Where the files are.
extension FileChunkStore {
    var incomingFolder: String { Path.join(directory, "incoming") }
    var droppedFolder: String { Path.join(directory, "dropped") }

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
        for name in ["chunks", "incoming", "dropped"] {
            let path = Path.join(directory, name)
            if try !FileSystem.exists(path) { try FileSystem.makeDirectory(path) }
            // What is in these two is removed; what a link in their place leads to is somebody else's.
            guard name != "chunks", try !FileSystem.status(path).isDirectory else { continue }
            try FileSystem.unlink(path)
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

    /// Gives this process an empty `incoming/`. Removing what an earlier one left there can take minutes (a disk that
    /// discards freed blocks takes milliseconds for each file), so that waits for the collector.
    func putLeftoversAside() throws(Errno) {
        guard try !FileSystem.entries(of: incomingFolder).isEmpty else { return }
        let taken = Set(try FileSystem.entries(of: droppedFolder).map(\.text))
        var number = 1
        while taken.contains("\(number)") { number += 1 }
        try FileSystem.rename(incomingFolder, to: Path.join(droppedFolder, "\(number)"))
        try FileSystem.makeDirectory(incomingFolder)
    }

    func removeLeftovers() throws(UbiquityError) {
        try describing("remove what was not durable", at: droppedFolder) { () throws(Errno) in
            for entry in try FileSystem.entries(of: droppedFolder) {
                try FileSystem.removeTree(Path.join(droppedFolder, entry.text))
            }
        }
    }

    /// Removes a file in `incoming/` that nobody needs. Should that fail, it goes with the next start.
    func discard(_ number: UInt64) { try? FileSystem.unlink(incomingPath(number)) }
}
