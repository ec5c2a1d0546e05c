import Glibc

/// A name in a directory.
package struct DirectoryEntry: Hashable, Sendable {
    package let name: [UInt8]
    package let inode: UInt64
    /// `unknown` if the file system does not report it in a listing.
    package let kind: FileKind

    /// The name as text, for messages and for this program's own names. Bytes that are not UTF-8 are replaced.
    package var text: String { String(decoding: name, as: UTF8.self) }
}

extension FileSystem {
    /// Returns all names in a directory except "." and "..", in the file system's order.
    package static func entries(of path: some CPath) throws(Errno) -> [DirectoryEntry] {
        var found = [DirectoryEntry]()
        try forEachEntry(of: path) { name, entry in
            let kind = FileKind(directoryEntryType: Int32(entry.pointee.d_type))
            found.append(DirectoryEntry(name: Array(name), inode: UInt64(entry.pointee.d_ino), kind: kind))
        }
        return found
    }

    /// Passes each name to `body` without copying it, for directories of hundreds of thousands. The bytes are valid in
    /// `body` only.
    package static func forEachName(in path: some CPath, _ body: (UnsafeRawBufferPointer) -> Void) throws(Errno) {
        try forEachEntry(of: path) { name, _ in body(name) }
    }

    private static func forEachEntry(
        of path: some CPath, _ body: (UnsafeRawBufferPointer, UnsafeMutablePointer<dirent>) -> Void
    ) throws(Errno) {
        let stream = try path.withCPath { path throws(Errno) -> OpaquePointer in
            guard let stream = opendir(path) else { throw .last }
            return stream
        }
        defer { closedir(stream) }
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                let error = Errno.last
                if error.rawValue == 0 { return }
                throw error
            }
            let name = name(in: entry)
            guard name.count > 2 || !name.allSatisfy({ $0 == UInt8(ascii: ".") }) else { continue }
            body(name, entry)
        }
    }

    private static func name(in entry: UnsafeMutablePointer<dirent>) -> UnsafeRawBufferPointer {
        guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        let start = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
        return UnsafeRawBufferPointer(start: start, count: strlen(start))
    }
}
