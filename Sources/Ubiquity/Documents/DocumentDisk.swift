import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// What a document looks like on disk: the stamp of a file, or of every member of a package. Equal stamps mean equal
/// content.
struct DocumentStamp: Hashable, Sendable {
    /// Stamps by path in the document. Paths are bytes, because names need not be valid text; the empty path is the
    /// document itself.
    private(set) var files: [[UInt8]: FileStamp] = [:]
    private(set) var modifiedAt: Timestamp?

    /// Blocks. Nil if the path does not exist.
    init?(path: String) throws(UbiquityError) {
        do throws(Errno) { try add(Array(path.utf8), []) } catch {
            if error == .ENOENT { return nil }
            throw UbiquityError(error, doing: "examine", at: path)
        }
    }

    private mutating func add(_ path: [UInt8], _ name: [UInt8]) throws(Errno) {
        let status = try FileSystem.status(path)
        files[name] = FileStamp(status)
        modifiedAt = max(modifiedAt ?? status.modifiedAt, status.modifiedAt)
        guard status.isDirectory else { return }
        for entry in try FileSystem.entries(of: path) {
            let slash = [UInt8(ascii: "/")]
            try add(path + slash + entry.name, name.isEmpty ? entry.name : name + slash + entry.name)
        }
    }

    static func == (a: DocumentStamp, b: DocumentStamp) -> Bool { a.files == b.files }
    func hash(into hasher: inout Hasher) { hasher.combine(files) }

    var modificationDate: Date? {
        modifiedAt.map { Date(timeIntervalSince1970: Double($0.nanoseconds) / 1_000_000_000) }
    }
}

/// A document's file as the document knows it.
struct KnownDisk {
    let place: DocumentPlace
    /// The file's state when it was last read or written; nil if it never was.
    var stamp: DocumentStamp?
    /// The rights that the file's format gives this program.
    var access = DocumentFormat.Access.readWrite

    init(place: DocumentPlace) { self.place = place }
}

enum DocumentDisk {
    static func stamp(of url: URL) async throws -> DocumentStamp? {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            try await FileAccess.run { try DocumentStamp(path: path) }
        }
    }

    /// The account of the container that holds a URL. Asks neither the mount nor its daemon.
    ///
    /// - Returns: Nil if no container holds it now. `.some(nil)` if its mount shows no account.
    static func identity(of url: URL) async -> UbiquityIdentityToken?? {
        let path = url.systemPath
        do {
            return try await FileAccess.run { () throws -> UbiquityIdentityToken?? in
                let place = try MountFinder.absolute(path)
                guard let mount = try MountFinder.table().mount(containing: place), mount.isUbiquity else {
                    return .none
                }
                let listed = Containers.Mounted(
                    mountPoint: String(decoding: mount.mountPoint, as: UTF8.self),
                    stateFolder: String(decoding: mount.source, as: UTF8.self))
                return .some(Containers.token(of: listed, for: ""))
            }
        } catch { return .none }
    }

    /// Follows a symlink to its target, because claims, checks and files all refer to that. Other URLs stay unchanged.
    static func resolved(_ url: URL) async throws -> URL {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            let place = try await FileAccess.run { try SafeFile.resolved(path) }
            return place == path ? url : URL(filePath: place, directoryHint: .notDirectory)
        }
    }

    /// Reads a document, downloading it if needed.
    ///
    /// - Parameter place: The document's own place. Content read from another URL keeps a place of its own.
    static func read(_ url: URL, of place: DocumentPlace) async throws -> Document.Contents {
        let path = url.systemPath, name = url.lastPathComponent
        let source = place.path == path ? place : DocumentPlace(path)
        return try await mappingFileErrors(isWriting: false) {
            try await FileAccess.waiting {
                guard try FileSystem.exists(path) else {
                    throw UbiquityError(.notFound, "there is no such document", at: path)
                }
                guard try FileSystem.status(path).isDirectory else { return .data(Data(try SafeFile.read(path))) }
                guard let package = try FileWrapper.read(source, name: name, []) else {
                    throw UbiquityError(.invalid, "not a document", at: path)
                }
                return .package(package)
            }
        }
    }

    /// Writes a new file.
    static func write(_ data: Data, to url: URL) async throws {
        let path = url.systemPath, bytes = Array(data)
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run { try SafeFile.create(bytes, at: path) }
        }
    }

    /// Writes the changed members of a package.
    static func write(
        _ package: FileWrapper, to url: URL, of place: DocumentPlace, _ format: DocumentFormat?
    ) async throws {
        let path = url.systemPath
        try await package.write(to: place.path == path ? place : DocumentPlace(path))
        guard let format else { return }
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run {
                if try DocumentFormat.read(path) != format { try format.write(to: path) }
            }
        }
    }

    /// Puts a file that was written beside the document in the document's place.
    static func publish(_ staged: URL, at url: URL, _ format: DocumentFormat?) async throws {
        let from = staged.systemPath, path = url.systemPath
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run {
                try SafeFile.replace(path, with: from) { () throws(UbiquityError) in try format?.write(to: from) }
            }
        }
    }

    /// Removes a file that was written beside the document, if it is there.
    static func discard(_ staged: URL) async {
        let path = staged.systemPath
        // A file that stays has a name that is not synced.
        try? await FileAccess.run { try FileSystem.removeTree(path) }
    }

    static func format(of url: URL) async throws -> DocumentFormat? {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            try await FileAccess.run { try DocumentFormat.read(path) }
        }
    }

    /// Returns the state folder of the container that holds a URL; nil outside of all containers.
    static func container(of url: URL) async throws -> String? {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            try await FileAccess.run {
                let absolute = try MountFinder.absolute(path)
                let found = try MountFinder.resolver(MountFinder.table()).locate(absolute)
                return found.map { String(decoding: $0.stateFolder, as: UTF8.self) }
            }
        }
    }
}
