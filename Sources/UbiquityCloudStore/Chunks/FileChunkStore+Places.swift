internal import UbiquityCore
internal import UbiquitySystem

// Paths of the files.
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

    /// Runs `body` with the chunk's file: the newer one in `incoming/`, else the durable one. Files move only from
    /// `incoming/` to `chunks/`, so one that moves meanwhile is found.
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

    /// Creates missing folders, durably: a power loss that takes a folder takes its chunks too.
    static func makeFolders(in directory: String) throws(Errno) {
        let chunks = Path.join(directory, "chunks")
        if try !FileSystem.exists(directory) {
            try FileSystem.makeDirectories(directory)
            try FileSystem.syncDirectory(Path.parent(of: directory))
        }
        for name in ["chunks", "incoming", "dropped"] {
            let path = Path.join(directory, name)
            if try !FileSystem.exists(path) { try FileSystem.makeDirectory(path) }
            // The contents of these two folders are removed. A link in their place may lead to another program's files,
            // so remove the link itself.
            guard name != "chunks", try !FileSystem.status(path).isDirectory else { continue }
            try FileSystem.unlink(path)
            try FileSystem.makeDirectory(path)
        }
        let present = Set(try FileSystem.entries(of: chunks).map(\.text))
        for folder in UInt8.min...UInt8.max where !present.contains(Hex.encode([folder])) {
            try FileSystem.makeDirectory(Path.join(chunks, Hex.encode([folder])))
        }
        // Each time: the process that created them may have ended before this.
        try FileSystem.syncDirectory(chunks)
        try FileSystem.syncDirectory(directory)
    }

    /// Gives this process an empty `incoming/`. Removing the files of an earlier process can take minutes (a disk that
    /// discards freed blocks takes milliseconds per file), so the collector does that.
    func putLeftoversAside() throws(Errno) {
        guard try !FileSystem.entries(of: incomingFolder).isEmpty else { return }
        let taken = Set(try FileSystem.entries(of: droppedFolder).map(\.text))
        var number = 1
        while taken.contains("\(number)") { number += 1 }
        try FileSystem.rename(incomingFolder, to: Path.join(droppedFolder, "\(number)"))
        try FileSystem.makeDirectory(incomingFolder)
    }

    func removeLeftovers() throws(UbiquityError) {
        try describing("remove chunks that are not durable", at: droppedFolder) { () throws(Errno) in
            for entry in try FileSystem.entries(of: droppedFolder) {
                try FileSystem.removeTree(Path.join(droppedFolder, entry.text))
            }
        }
    }

    /// Removes a file in `incoming/` that is not needed. If that fails, the next start removes it.
    func discard(_ number: UInt64) { try? FileSystem.unlink(incomingPath(number)) }
}
