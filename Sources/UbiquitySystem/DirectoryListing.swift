import Glibc

/// A name in a directory.
package struct DirectoryEntry: Hashable, Sendable {
    package let name: [UInt8]
    package let inode: UInt64
    /// `unknown` where the file system does not tell it in a listing.
    package let kind: FileKind

    /// The name as text; bytes that are not UTF-8 are replaced, so it is for people and for names of our own.
    package var text: String { String(decoding: name, as: UTF8.self) }
}

extension FileSystem {
    /// All names in a directory but "." and "..", in the file system's order.
    package static func entries(of path: some CPath) throws(Errno) -> [DirectoryEntry] {
        let stream = try path.withCPath { path throws(Errno) -> OpaquePointer in
            guard let stream = opendir(path) else { throw .last }
            return stream
        }
        defer { closedir(stream) }
        var found = [DirectoryEntry]()
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                let error = Errno.last
                if error.rawValue == 0 { return found }
                throw error
            }
            let name = bytes(ofNameIn: entry)
            if name == [UInt8(ascii: ".")] || name == [UInt8(ascii: "."), UInt8(ascii: ".")] { continue }
            let kind = FileKind(directoryEntryType: Int32(entry.pointee.d_type))
            found.append(DirectoryEntry(name: name, inode: UInt64(entry.pointee.d_ino), kind: kind))
        }
    }

    private static func bytes(ofNameIn entry: UnsafeMutablePointer<dirent>) -> [UInt8] {
        guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else { return [] }
        let start = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
        return Array(UnsafeRawBufferPointer(start: start, count: strlen(start)))
    }
}
