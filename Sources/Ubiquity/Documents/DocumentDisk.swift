import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// What a document's place looks like on the disk: of a file itself, of a package all that is in it. Two looks that are
/// equal saw the same content.
struct DocumentStamp: Hashable, Sendable {
    /// By the path in the document, in bytes, as there are names that are no text; an empty one is the document.
    private(set) var files: [[UInt8]: FileStamp] = [:]
    private(set) var modifiedAt: Timestamp?

    /// Nil if nothing stands there. Blocks.
    init?(path: String) throws(UbiquityError) {
        do throws(Errno) { try add(Array(path.utf8), []) } catch {
            if error == .ENOENT { return nil }
            throw UbiquityError(error, doing: "look at", at: path)
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

enum DocumentDisk {
    static func stamp(of url: URL) async throws -> DocumentStamp? {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            try await FileAccess.run { try DocumentStamp(path: path) }
        }
    }

    /// What a symlink leads to: claims, looks and files are all about that. Any other place is as it is.
    static func resolved(_ url: URL) async throws -> URL {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            let place = try await FileAccess.run { try SafeFile.resolved(path) }
            return place == path ? url : URL(filePath: place, directoryHint: .notDirectory)
        }
    }

    /// - Parameter place: the document's own; what is read elsewhere keeps to where it was read.
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

    static func write(_ contents: Document.Contents, to url: URL, of place: DocumentPlace) async throws {
        let path = url.systemPath
        switch contents {
        case .data(let data):
            let bytes = Array(data)
            try await mappingFileErrors(isWriting: true) {
                try await FileAccess.run { try SafeFile.write(bytes, to: path) }
            }
        case .package(let package): try await package.write(to: place.path == path ? place : DocumentPlace(path))
        }
    }

    /// The container that a place is in: its state folder; nil outside of all.
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
