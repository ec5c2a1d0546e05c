import UbiquityCore
import UbiquitySystem

/// Writes a folder with all its contents as a zip archive. The folder's name is the archive's only top entry.
struct FolderArchive {
    private static let bufferLength = 1 << 20

    private let target: FileDescriptor
    private let place: String
    private var zip = ZipWriter()
    private var offset: Int64 = 0

    /// - Parameter place: The archive's path, for messages.
    init(_ target: FileDescriptor, place: String) {
        self.target = target
        self.place = place
    }

    /// Writes the archive.
    ///
    /// - Throws: `.busy` if a file changes meanwhile; `.tooLarge` for folders nested too deeply; errors of reading and
    ///   writing.
    mutating func write(_ folder: String) throws(UbiquityError) {
        let name = try Self.name(Array(Path.name(of: folder).utf8), at: folder)
        try add(Array(folder.utf8), as: [name])
        try put(zip.finish())
    }

    private mutating func add(_ path: [UInt8], as names: [ItemName]) throws(UbiquityError) {
        let place = String(decoding: path, as: UTF8.self)
        guard names.count <= Limits.maximumDepth else {
            throw UbiquityError(.tooLarge, "folders are nested more than \(Limits.maximumDepth) levels deep", at: place)
        }
        let status = try describing("examine the item", at: place) { () throws(Errno) in
            // The folder itself may be given by a symlink; inside it, links stay links.
            names.count == 1 ? try FileSystem.statusFollowing(path) : try FileSystem.status(path)
        }
        switch status.kind {
        case .directory:
            try put(begin(.folder, names, status, place))
            try finishEntry(place)
            let entries = try describing("list the folder", at: place) { () throws(Errno) in
                try FileSystem.entries(of: path)
            }
            for entry in entries.sorted(by: { $0.name.lexicographicallyPrecedes($1.name) }) {
                let name = try Self.name(entry.name, at: place)
                try add(Path.join(path, entry.name), as: names + [name])
            }
        case .symlink:
            let text = try describing("read the link", at: place) { () throws(Errno) in try FileSystem.readLink(path) }
            try put(begin(.symlink(target: text), names, status, place))
            try finishEntry(place)
        case .file: try addFile(path, names, status, place)
        // Pipes, sockets and devices have no content.
        default: return
        }
    }

    private mutating func addFile(
        _ path: [UInt8], _ names: [ItemName], _ status: FileStatus, _ place: String
    ) throws(UbiquityError) {
        let source = try describing("open", at: place) { () throws(Errno) in
            try FileDescriptor.open(path, .readOnly)
        }
        try put(begin(.file(size: status.size), names, status, place))
        while status.size > 0 {
            let part = try describing("read", at: place) { () throws(Errno) in
                try source.readSome(count: Self.bufferLength)
            }
            if part.isEmpty { break }
            zip.add(part[...])
            try put(part)
        }
        try finishEntry(place)
    }

    private mutating func begin(
        _ kind: ZipEntry.Kind, _ names: [ItemName], _ status: FileStatus, _ place: String
    ) throws(UbiquityError) -> [UInt8] {
        do throws(ZipError) {
            return zip.begin(
                try ZipEntry(names, kind, modified: status.modifiedAt, isExecutable: status.permissions & 0o100 != 0))
        } catch {
            throw UbiquityError(.nameTooLong, "a zip archive cannot hold the path", at: place)
        }
    }

    private mutating func finishEntry(_ place: String) throws(UbiquityError) {
        let bytes: [UInt8]
        do throws(ZipError) { bytes = try zip.end() } catch {
            throw UbiquityError(.busy, "the file changes while it is packed", at: place)
        }
        try put(bytes)
    }

    private mutating func put(_ bytes: [UInt8]) throws(UbiquityError) {
        try describing("write the archive", at: place) { () throws(Errno) in try target.write(bytes, at: offset) }
        offset += Int64(bytes.count)
    }

    private static func name(_ bytes: [UInt8], at place: String) throws(UbiquityError) -> ItemName {
        do { return try ItemName(bytes) } catch {
            throw UbiquityError(.invalidName, "the name is not valid", at: place)
        }
    }
}
