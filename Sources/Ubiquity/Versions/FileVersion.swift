import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A version of a file: the current one, an earlier one, or one that lost a conflict.
///
/// Two devices that change a file without knowing of each other make a conflict. The newer change is the current
/// version, on all devices; the other is kept as a conflict version until somebody decides. Decide by putting its
/// content where it belongs (`replaceItem`), if anywhere, and then `setResolved`: the conflict is settled for all
/// devices.
///
/// Versions count as content. List and read them inside a coordinated read of their file; replace, remove and resolve
/// inside a coordinated write of it. A list is of its moment: conflicts come and are settled elsewhere at any time, so
/// ask again when a presenter is told that a version was gained or resolved.
public final class FileVersion: Sendable {
    /// Where its content can be read: the file itself, or an entry of the hidden folder `.versions` beside it. Reading
    /// downloads it if need be; nothing can be written there.
    public let url: URL
    /// The file's name when it was saved.
    public let localizedName: String
    public let localizedNameOfSavingComputer: String
    public let modificationDate: Date
    /// Names the version on all devices, for as long as it exists.
    public let persistentIdentifier: String
    /// Bytes.
    public let size: Int64
    public let isCurrent: Bool
    /// Whether it lost a conflict. A version beside the current one is not always in conflict: see this.
    public let isConflict: Bool
    /// Whether its content can be had: false while the device that made it has not uploaded it yet.
    public let isAvailable: Bool
    private let file: URL
    private let resolved: Lock<Bool>

    /// Whether it is decided. True for what is not in conflict.
    public var isResolved: Bool { resolved.withLock { $0 } }

    init(_ report: VersionReport, of file: URL) {
        self.file = file
        isCurrent = report.kind == .current
        url = report.name.map {
            file.deletingLastPathComponent()
                .appending(path: ".versions/\(file.lastPathComponent)/\($0)", directoryHint: .notDirectory)
        } ?? file
        localizedName = report.displayName
        localizedNameOfSavingComputer = report.device
        modificationDate = Date(timeIntervalSince1970: report.modifiedAt)
        persistentIdentifier = report.id
        size = report.size
        isConflict = report.kind == .conflict
        isAvailable = report.isAvailable
        resolved = Lock(report.kind != .conflict)
    }

    /// A file's content, downloaded if need be; of a package see `fileWrapper`. (Calls that open files without waiting,
    /// as Foundation's do, get no content that is not on this device.)
    public func contents() async throws -> Data {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            Data(
                try await FileAccess.waiting {
                    guard try !Self.isPackage(path) else {
                        throw UbiquityError(.notSupported, "the version is a package: read its 'fileWrapper'", at: path)
                    }
                    return try SafeFile.read(path)
                })
        }
    }

    /// What it consists of: a package's members, or a file. Contents are downloaded when they are read.
    public func fileWrapper(options: FileWrapper.ReadingOptions = []) async throws -> FileWrapper {
        try await FileWrapper(url: url, options: options)
    }

    private static func isPackage(_ path: String) throws(UbiquityError) -> Bool {
        try describing("look at the version", at: path) { () throws(Errno) in
            try FileSystem.statusFollowing(path).isDirectory
        }
    }

    /// How a version is put somewhere.
    public struct ReplacingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// The version is gone afterwards; a conflict is resolved with it.
        public static let byMoving = ReplacingOptions(rawValue: 1)
    }

    /// Puts its content in the place of a file, or at a new place; what is there is replaced without a question. The
    /// version itself stays, unresolved, unless it is moved.
    /// - Returns: the place.
    @discardableResult
    public func replaceItem(at url: URL, options: ReplacingOptions = []) async throws -> URL {
        guard isAvailable else {
            throw UbiquitousFileError(
                .ubiquitousFileUnavailable,
                "its content is still on its way from \(localizedNameOfSavingComputer)")
        }
        let source = self.url.systemPath, target = url.systemPath, moves = options.contains(.byMoving) && !isCurrent
        try await mappingFileErrors(isWriting: true) {
            let isDone = try await FileAccess.waiting {
                if moves, Self.move(source, to: target) { return true }
                guard try !Self.isPackage(source) else { return false }
                try SafeFile.copy(source, to: target)
                if moves, self.isConflict { try Self.remove(source) }
                return true
            }
            if !isDone { try await copyPackage(to: target, moves: moves) }
        }
        if moves { resolved.withLock { $0 = true } }
        return url
    }

    /// Member by member: a folder that is not empty is in nobody's place by a rename.
    private func copyPackage(to target: String, moves: Bool) async throws {
        let place = try await FileAccess.run { try SafeFile.resolved(target) }
        try await fileWrapper().write(to: URL(filePath: place, directoryHint: .notDirectory))
        let source = url.systemPath
        if moves, self.isConflict { try await FileAccess.run { try Self.remove(source) } }
    }

    /// A package's members first, as `rm -r` does. One that has gone was decided elsewhere in the meantime.
    private static func remove(_ path: String) throws(UbiquityError) {
        try describing("remove the version", at: path) { () throws(Errno) in try FileSystem.removeTree(path) }
    }

    /// False if it cannot be moved there, as to another file system.
    private static func move(_ source: String, to target: String) -> Bool {
        (try? FileSystem.rename(source, to: target)) != nil
    }

    /// Settles the conflict, on all devices: the version is of no more use to anybody and goes.
    /// - Throws: if it is to be made unresolved: what was decided is decided.
    public func setResolved(_ isResolved: Bool = true) async throws {
        guard isResolved else {
            throw UbiquitousFileError(.featureUnsupported, "a conflict that was decided cannot be opened again")
        }
        guard !self.isResolved else { return }
        let path = url.systemPath
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run {
                do throws(Errno) {
                    try FileSystem.setXattr(path, "user.ubiquity.resolved", [UInt8(ascii: "1")])
                } catch {
                    // It was decided elsewhere in the meantime.
                    guard error != .ENOENT else { return }
                    throw UbiquityError(error, doing: "resolve the conflict", at: path)
                }
            }
        }
        resolved.withLock { $0 = true }
    }

    /// Removes a conflict version, which resolves the conflict on all devices. Neither the current version nor an
    /// earlier one can be removed: the cloud keeps earlier versions for their time.
    public func remove() async throws {
        guard !isCurrent else {
            throw UbiquitousFileError(.fileWriteNoPermission, "the current version is the file: \(url.path)")
        }
        guard isConflict else {
            throw UbiquitousFileError(
                .fileWriteNoPermission, "the cloud keeps earlier versions for their time: \(url.path)")
        }
        let path = url.systemPath
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run { try Self.remove(path) }
        }
        resolved.withLock { $0 = true }
    }
}

extension FileVersion: Hashable, Identifiable {
    public var id: String { persistentIdentifier }

    public static func == (a: FileVersion, b: FileVersion) -> Bool {
        a.persistentIdentifier == b.persistentIdentifier && a.file == b.file
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(persistentIdentifier) }
}
