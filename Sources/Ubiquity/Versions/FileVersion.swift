import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A version of a file: the current one, an earlier one, or the loser of a conflict.
///
/// Two devices that change a file independently make a conflict. The newer change becomes the current version on all
/// devices; the other is kept as a conflict version until somebody decides. To decide, put its content where it
/// belongs, if anywhere (`replaceItem`), then call `setResolved`: this resolves the conflict on all devices.
///
/// Versions count as content. List and read them inside a coordinated read of their file; replace, remove and resolve
/// them inside a coordinated write. A list is a snapshot: conflicts appear and are resolved elsewhere at any time. List
/// again when a presenter is notified of a gained or resolved version.
///
/// - Source: `NSFileVersion`.
public final class FileVersion: Sendable {
    /// Where the content can be read: the file itself, or an entry of the hidden folder `.versions` beside it. Reading
    /// downloads the content if needed; writing is not possible.
    public let url: URL
    /// The file's name when the version was saved.
    public let localizedName: String
    /// The name of the device that saved the version.
    public let localizedNameOfSavingComputer: String
    /// The content's modification date.
    public let modificationDate: Date
    /// Identifies the version on all devices for as long as it exists.
    public let persistentIdentifier: String
    /// Bytes.
    public let size: Int64
    /// Whether this is the current version.
    public var isCurrent: Bool { kind == .current && copy == nil }
    /// Whether the version lost a conflict. Not every version besides the current one did.
    public var isConflict: Bool { kind == .conflict }
    /// Whether the content can be read. False until the device that made it has uploaded it.
    public let isAvailable: Bool
    /// Why a program on this device added the version; nil for a version that a device saved or that lost a conflict.
    public let origin: Origin?
    private let kind: VersionReport.Kind
    private let file: URL
    private let copy: String?
    private let state: Lock<State>

    private struct State {
        var isResolved: Bool
        var isDiscardable: Bool
    }

    /// Why a program adds a version.
    ///
    /// - Source: this library; on a Mac all added versions are alike.
    public enum Origin: String, Hashable, Sendable, CaseIterable {
        /// The program saved a state of the document by itself.
        case autosaved
        /// The user asked for the version.
        case manual
        /// The content that a restored version replaced.
        case restored
    }

    /// Whether the conflict is decided. True for a version that is not in conflict.
    public var isResolved: Bool { state.withLock { $0.isResolved } }

    /// - Parameter contents: A copy of the content for this version alone, which is removed with it; nil if the content
    ///   is at the usual place.
    init(_ report: VersionReport, of file: URL, contents: URL? = nil) {
        self.file = file
        copy = contents?.systemPath
        kind = report.kind
        url = contents ?? report.name.map {
            file.deletingLastPathComponent()
                .appending(path: ".versions/\(file.lastPathComponent)/\($0)", directoryHint: .notDirectory)
        } ?? file
        localizedName = report.displayName
        localizedNameOfSavingComputer = report.device
        modificationDate = Date(timeIntervalSince1970: report.modifiedAt)
        persistentIdentifier = report.id
        size = report.size
        isAvailable = report.isAvailable
        origin = report.origin.flatMap { Origin(rawValue: $0.rawValue) }
        state = Lock(State(isResolved: report.kind != .conflict, isDiscardable: report.isDiscardable ?? false))
    }

    deinit {
        // A copy that stays is removed when the container is mounted again.
        if let copy { try? FileSystem.unlink(copy) }
    }

    /// Whether the version may be removed to make space for other versions; always false for versions that no program
    /// has added.
    public var isDiscardable: Bool { state.withLock { $0.isDiscardable } }

    /// Whether the content is on this device. Reading another version downloads it.
    public var hasLocalContents: Bool {
        // A file that cannot be examined is reported by the read.
        if copy != nil || origin != nil { return true }
        return isCurrent && !((try? DownloadState.isMissing(url.systemPath)) ?? true)
    }

    // MARK: Versions of programs

    /// How a version is added.
    public struct AddingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// Moves the content instead of copying it.
        public static let byMoving = AddingOptions(rawValue: 1)
    }

    /// Adds a version to a file, for example before the program reverts it. The version stays on this device, in
    /// `.versions` beside those of the cloud: at most 100 of a file and 5 GB of a container, after which the oldest are
    /// removed, discardable ones first.
    ///
    /// - Parameters:
    ///   - url: The URL of the file.
    ///   - contentsURL: The content; the file itself for its present content.
    ///   - options: Whether the content is moved.
    ///   - origin: Why the program adds the version.
    ///   - isDiscardable: Whether the version may be removed to make space.
    /// - Returns: The new version.
    /// - Throws: `UbiquitousFileError`: `.fileNoSuchFile`, `.featureUnsupported` for a package or outside of all
    ///   containers, `.fileWriteOutOfSpace`.
    @discardableResult
    public static func addVersionOfItem(
        at url: URL, withContentsOf contentsURL: URL, options: AddingOptions = [], origin: Origin = .manual,
        isDiscardable: Bool = false
    ) async throws -> FileVersion {
        let source = contentsURL.systemPath, isMoved = options.contains(.byMoving) && contentsURL != url
        return try await mappingFileErrors(isWriting: true) {
            let place = try MountFinder.locate(url.systemPath)
            let stateFolder = String(decoding: place.stateFolder, as: UTF8.self)
            let content = try await FileAccess.waiting { try IncomingContent(of: source, stateFolder: stateFolder) }
            let connection = try DaemonConnection(stateFolder: stateFolder)
            let wanted = VersionAddition(
                path: String(decoding: place.relativePath, as: UTF8.self), content: content.name,
                origin: VersionOrigin(rawValue: origin.rawValue) ?? .manual, isDiscardable: isDiscardable,
                modifiedAt: content.modifiedAt)
            let report: VersionReport
            do {
                report = try await connection.ask(ControlRoute.addVersion, wanted)
                await connection.close()
            } catch {
                await connection.close()
                content.remove()
                throw error
            }
            if isMoved { try await FileAccess.run { try Self.remove(source) } }
            return FileVersion(report, of: url)
        }
    }

    /// Returns a new folder for the content of a version that is about to be added. Remove it afterwards.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `UbiquitousFileError`.
    public static func temporaryDirectoryURL(forNewVersionOfItemAt url: URL) async throws -> URL {
        let folder = Path.temporary("ubiquity-version-")
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run {
                try describing("make a folder", at: folder) { () throws(Errno) in
                    try FileSystem.makeDirectory(folder, mode: 0o700)
                }
            }
        }
        return URL(filePath: folder, directoryHint: .isDirectory)
    }

    /// Changes whether the version may be removed to make space.
    ///
    /// - Parameter isDiscardable: The new value.
    /// - Throws: `.featureUnsupported` for a version that no program has added.
    public func setDiscardable(_ isDiscardable: Bool) async throws {
        guard origin != nil else {
            throw UbiquitousFileError(
                .featureUnsupported, "the cloud keeps the version for its retention time: \(url.path)")
        }
        try await mappingFileErrors(isWriting: true) {
            let place = try MountFinder.locate(file.systemPath)
            let connection = try DaemonConnection(stateFolder: String(decoding: place.stateFolder, as: UTF8.self))
            let wanted = VersionChange(
                path: String(decoding: place.relativePath, as: UTF8.self), version: persistentIdentifier,
                isDiscardable: isDiscardable)
            do {
                let _: VersionReport = try await connection.ask(ControlRoute.changeVersion, wanted)
                await connection.close()
            } catch {
                await connection.close()
                throw error
            }
        }
        state.withLock { $0.isDiscardable = isDiscardable }
    }

    /// Reads a file's content, downloading it if needed; for a package use `fileWrapper`. Calls that open files without
    /// waiting, such as Foundation's, fail for content that is not on this device.
    ///
    /// - Throws: `UbiquitousFileError`.
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

    /// Returns the version as a wrapper: a package's members, or a file. Contents are downloaded when they are read.
    ///
    /// - Parameter options: Whether contents are read at once.
    /// - Throws: `UbiquitousFileError`.
    public func fileWrapper(options: FileWrapper.ReadingOptions = []) async throws -> FileWrapper {
        try await FileWrapper(url: url, options: options)
    }

    private static func isPackage(_ path: String) throws(UbiquityError) -> Bool {
        try describing("examine the version", at: path) { () throws(Errno) in
            try FileSystem.statusFollowing(path).isDirectory
        }
    }

    /// How a version replaces an item.
    public struct ReplacingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// Removes the version afterwards, which also resolves its conflict.
        public static let byMoving = ReplacingOptions(rawValue: 1)
    }

    /// Writes the version's content to a file, existing or new. An existing file is replaced without asking. The
    /// version stays unresolved unless it is moved.
    ///
    /// - Parameter url: The URL of the file.
    /// - Parameter options: Whether the version is removed afterwards.
    /// - Throws: `UbiquitousFileError`.
    /// - Returns: The URL written to.
    @discardableResult
    public func replaceItem(at url: URL, options: ReplacingOptions = []) async throws -> URL {
        guard isAvailable else {
            throw UbiquitousFileError(
                .ubiquitousFileUnavailable,
                "its content is not uploaded yet by \(localizedNameOfSavingComputer)")
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
        if moves { state.withLock { $0.isResolved = true } }
        return url
    }

    /// Copies a package member by member: a rename cannot replace a folder that is not empty.
    private func copyPackage(to target: String, moves: Bool) async throws {
        let place = try await FileAccess.run { try SafeFile.resolved(target) }
        try await fileWrapper().write(to: URL(filePath: place, directoryHint: .notDirectory))
        let source = url.systemPath
        if moves, self.isConflict { try await FileAccess.run { try Self.remove(source) } }
    }

    /// Removes a version; a package's members first, as `rm -r` does. If it is gone already, another device has decided
    /// the conflict.
    private static func remove(_ path: String) throws(UbiquityError) {
        try describing("remove the version", at: path) { () throws(Errno) in try FileSystem.removeTree(path) }
    }

    /// Returns false if the version cannot be renamed there, for example to another file system.
    private static func move(_ source: String, to target: String) -> Bool {
        (try? FileSystem.rename(source, to: target)) != nil
    }

    /// Resolves the conflict on all devices. The version is removed.
    ///
    /// - Parameter isResolved: True; false is not supported.
    /// - Throws: `.featureUnsupported` for false: a resolved conflict cannot be reopened.
    public func setResolved(_ isResolved: Bool = true) async throws {
        guard isResolved else {
            throw UbiquitousFileError(.featureUnsupported, "a resolved conflict cannot be reopened")
        }
        guard !self.isResolved else { return }
        let path = url.systemPath
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run {
                do throws(Errno) {
                    try FileSystem.setXattr(path, ControlAttribute.resolved.attribute, [UInt8(ascii: "1")])
                } catch {
                    // Another device has resolved it meanwhile.
                    guard error != .ENOENT else { return }
                    throw UbiquityError(error, doing: "resolve the conflict", at: path)
                }
            }
        }
        state.withLock { $0.isResolved = true }
    }

    /// Removes a conflict version, which resolves the conflict on all devices, or a version that a program has added.
    ///
    /// - Throws: `.fileWriteNoPermission` for the current version or an earlier one of the cloud. The cloud removes
    ///   earlier versions after its retention time.
    public func remove() async throws {
        guard !isCurrent else {
            throw UbiquitousFileError(
                .fileWriteNoPermission,
                "the current version cannot be removed; delete the file instead: \(url.path)")
        }
        guard isConflict || origin != nil else {
            throw UbiquitousFileError(
                .fileWriteNoPermission,
                "earlier versions cannot be removed; the cloud drops them after its retention time: \(url.path)")
        }
        let path = url.systemPath
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run { try Self.remove(path) }
        }
        state.withLock { $0.isResolved = true }
    }
}

extension FileVersion: Hashable, Identifiable {
    public var id: String { persistentIdentifier }

    public static func == (a: FileVersion, b: FileVersion) -> Bool {
        a.persistentIdentifier == b.persistentIdentifier && a.file == b.file
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(persistentIdentifier) }
}
