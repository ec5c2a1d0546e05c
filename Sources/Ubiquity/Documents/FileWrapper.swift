import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// A file, a folder or a symlink in memory: the parts of a document that is a package.
///
/// The wrappers in a folder can be replaced; a file's content cannot. To change a file, put a new wrapper in its place.
/// Writing uses this to find changes: a wrapper that was read or written before is not written again. Contents are read
/// on first use, so listing previews reads only the previews.
///
/// - Source: `FileWrapper` of Foundation.
public final class FileWrapper: Sendable {
    /// How a wrapper is read from a URL.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// Reads all contents at once.
        public static let immediate = ReadingOptions(rawValue: 1)
    }

    enum Content: Sendable {
        /// Nil until the content is read.
        case file([UInt8]?)
        case directory([String: FileWrapper])
        case symlink(String)
    }

    /// The file on disk that a wrapper is known to equal.
    struct Origin: Sendable {
        /// The place of the whole tree that was read or written.
        var place: DocumentPlace
        /// The path in the tree; "" is its root.
        var member: String
        var stamp: FileStamp

        /// The file's path. It follows the document if the place was updated after a move.
        var path: String { path(in: place.path) }
        func path(in root: String) -> String { member.isEmpty ? root : "\(root)/\(member)" }
    }

    private struct State {
        var content: Content
        var preferredFilename: String?
        /// The file on disk with this content, if any.
        var origin: Origin?
    }

    private let state: Lock<State>

    private init(_ content: Content, _ name: String?, _ origin: Origin? = nil) {
        state = Lock(State(content: content, preferredFilename: name, origin: origin))
    }

    // MARK: Making wrappers

    /// Makes a wrapper of a file.
    ///
    /// - Parameter contents: The content.
    /// - Parameter preferredFilename: The name that the wrapper should have in a folder.
    public convenience init(regularFileWithContents contents: Data, preferredFilename: String? = nil) {
        self.init(.file(Array(contents)), preferredFilename)
    }

    /// - Parameter preferredFilename: The name that the wrapper should have in a folder.
    /// - Parameter wrappers: Wrappers by their names in the folder.
    public convenience init(
        directoryWithFileWrappers wrappers: [String: FileWrapper], preferredFilename: String? = nil
    ) {
        self.init(.directory(wrappers), preferredFilename)
    }

    /// - Parameter preferredFilename: The name that the wrapper should have in a folder.
    /// - Parameter destination: The link's text, relative to its folder or absolute.
    public convenience init(symbolicLinkWithDestination destination: String, preferredFilename: String? = nil) {
        self.init(.symlink(destination), preferredFilename)
    }

    /// Reads the item at a URL; for a folder, everything in it. Sockets, FIFOs and devices are left out.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter options: Whether contents are read at once.
    /// - Throws: `UbiquitousFileError`.
    public convenience init(url: URL, options: ReadingOptions = []) async throws {
        let path = url.systemPath
        let found = try await mappingFileErrors(isWriting: false) {
            try await FileAccess.waiting { try Self.read(DocumentPlace(path), name: url.lastPathComponent, options) }
        }
        guard let found else { throw UbiquitousFileError(.fileReadUnknown, "not a file or folder: \(path)") }
        let state = found.state.withLock { $0 }
        self.init(state.content, state.preferredFilename, state.origin)
    }

    /// Maximum nesting of folders. A deeper tree is not a document.
    private static let maximumDepth = 256

    /// Reads one item; nil if it is not a file, folder or symlink.
    ///
    /// - Parameter member: The path in the place's tree.
    static func read(
        _ place: DocumentPlace, member: String = "", name: String, _ options: ReadingOptions, depth: Int = 0
    ) throws(UbiquityError) -> FileWrapper? {
        let root = place.path, path = member.isEmpty ? root : "\(root)/\(member)"
        guard depth < maximumDepth else {
            throw UbiquityError(.tooLarge, "folders are nested more than \(maximumDepth) levels deep", at: path)
        }
        let status = try describing("read", at: path) { () throws(Errno) in try FileSystem.status(path) }
        let origin = Origin(place: place, member: member, stamp: FileStamp(status))
        switch status.kind {
        case .file:
            let bytes = options.contains(.immediate) ? try SafeFile.read(path) : nil
            return FileWrapper(.file(bytes), name, origin)
        case .symlink:
            let bytes = try describing("read", at: path) { () throws(Errno) in try FileSystem.readLink(path) }
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw UbiquityError(.notSupported, "the target of a symlink in a document is not UTF-8", at: path)
            }
            return FileWrapper(.symlink(text), name, origin)
        case .directory:
            var members = [String: FileWrapper]()
            for name in try names(in: path) {
                guard members[name] == nil else {
                    throw UbiquityError(
                        .notSupported, "two names in a document differ only in how their letters are encoded: \(name)",
                        at: path)
                }
                let next = member.isEmpty ? name : "\(member)/\(name)"
                members[name] = try read(place, member: next, name: name, options, depth: depth + 1)
            }
            return FileWrapper(.directory(members), name, origin)
        default: return nil
        }
    }

    /// Lists the names in a folder of a document.
    ///
    /// - Throws: `.notSupported` for a name that is not UTF-8, because it could not be kept or written back.
    static func names(in folder: String) throws(UbiquityError) -> [String] {
        let entries = try describing("list", at: folder) { () throws(Errno) in try FileSystem.entries(of: folder) }
        var names = [String]()
        for entry in entries {
            guard let name = String(validating: entry.name, as: UTF8.self) else {
                throw UbiquityError(.notSupported, "a name in a document is not UTF-8: \(entry.text)", at: folder)
            }
            names.append(name)
        }
        return names
    }

    // MARK: Looking at wrappers

    /// Whether this is a file.
    public var isRegularFile: Bool { if case .file = content { true } else { false } }
    /// Whether this is a folder.
    public var isDirectory: Bool { if case .directory = content { true } else { false } }
    /// Whether this is a symlink.
    public var isSymbolicLink: Bool { if case .symlink = content { true } else { false } }

    /// The name the wrapper should have in a folder.
    public var preferredFilename: String? {
        get { state.withLock { $0.preferredFilename } }
        set { state.withLock { $0.preferredFilename = newValue } }
    }

    var content: Content { state.withLock { $0.content } }
    var origin: Origin? { state.withLock { $0.origin } }
    func note(_ origin: Origin) { state.withLock { $0.origin = origin } }

    /// Returns a file's content. The content is read now if it was not read before.
    ///
    /// - Throws: `.fileReadCorruptFile` if the file has changed since the wrapper was made: read the document again.
    public func regularFileContents() async throws -> Data {
        guard case .file(let known) = content else {
            throw UbiquitousFileError(.fileReadUnknown, "only a file has contents: \(preferredFilename ?? "")")
        }
        if let known { return Data(known) }
        return Data(try await mappingFileErrors(isWriting: false) { try await FileAccess.waiting { try self.bytes() } })
    }

    /// Returns the content. Blocks, also for a download.
    ///
    /// - Parameter root: Another possible place of the tree, if it was moved since it was read.
    func bytes(root: String? = nil) throws(UbiquityError) -> [UInt8] {
        if case .file(let known?) = content { return known }
        guard let origin else { return [] }
        let places = [origin.path] + (root.map { [origin.path(in: $0)] } ?? [])
        // A path that cannot be examined is reported by the read below.
        let path = places.first { (try? FileSystem.status($0)).map(FileStamp.init) == origin.stamp } ?? places[0]
        let bytes = try SafeFile.read(path)
        let now = try describing("read", at: path) { () throws(Errno) in FileStamp(try FileSystem.status(path)) }
        guard now == origin.stamp else {
            throw UbiquityError(.damaged, "the file has changed since the document was read", at: path)
        }
        state.withLock { $0.content = .file(bytes) }
        return bytes
    }

    /// A symlink's text; nil if this is not a symlink.
    public var symbolicLinkDestination: String? { if case .symlink(let text) = content { text } else { nil } }

    // MARK: Folders

    /// A folder's wrappers by name; nil if this is not a folder.
    public var fileWrappers: [String: FileWrapper]? { if case .directory(let all) = content { all } else { nil } }

    /// Adds a wrapper to the folder under its preferred name, or a numbered one if that is taken.
    ///
    /// - Parameter wrapper: The wrapper to add.
    /// - Returns: The name used, or nil if this is not a folder.
    @discardableResult
    public func addFileWrapper(_ wrapper: FileWrapper) -> String? {
        let wanted = wrapper.preferredFilename ?? "Unnamed"
        return state.withLock { state in
            guard case .directory(var all) = state.content else { return nil }
            var name = wanted, number = 2
            while all[name] != nil {
                name = Self.numbered(wanted, number)
                number += 1
            }
            all[name] = wrapper
            state.content = .directory(all)
            return name
        }
    }

    /// Adds a file to the folder, under a numbered name if the name is taken.
    ///
    /// - Parameter contents: The content.
    /// - Parameter preferredFilename: The name that the file should have.
    /// - Returns: The name used, or nil if this is not a folder.
    @discardableResult
    public func addRegularFile(withContents contents: Data, preferredFilename: String) -> String? {
        addFileWrapper(FileWrapper(regularFileWithContents: contents, preferredFilename: preferredFilename))
    }

    /// Puts a file into the folder and replaces the one of that name. A file with equal content stays as it is and is
    /// not written again.
    ///
    /// - Parameter contents: The content.
    /// - Parameter name: The name in the folder.
    public func setRegularFile(withContents contents: Data, named name: String) {
        let bytes = Array(contents)
        if let old = fileWrappers?[name], case .file(let known?) = old.content, known == bytes { return }
        let wrapper = FileWrapper(regularFileWithContents: contents, preferredFilename: name)
        state.withLock { state in
            guard case .directory(var all) = state.content else { return }
            all[name] = wrapper
            state.content = .directory(all)
        }
    }

    /// Removes the wrapper with a name from the folder.
    ///
    /// - Parameter name: The name in the folder.
    public func removeFileWrapper(named name: String) {
        state.withLock { state in
            guard case .directory(var all) = state.content else { return }
            all[name] = nil
            state.content = .directory(all)
        }
    }

    /// Removes a wrapper from the folder.
    ///
    /// - Parameter wrapper: The wrapper to remove.
    public func removeFileWrapper(_ wrapper: FileWrapper) {
        if let name = keyForFileWrapper(wrapper) { removeFileWrapper(named: name) }
    }

    /// Returns a wrapper's name in the folder; nil if the folder does not contain it.
    ///
    /// - Parameter wrapper: The wrapper to find.
    public func keyForFileWrapper(_ wrapper: FileWrapper) -> String? {
        fileWrappers?.first { $1 === wrapper }?.key
    }

    /// Returns a copy of the tree as it is now. Later changes of the folders do not affect it; contents are shared.
    public func snapshot() -> FileWrapper {
        guard case .directory(let all) = content else { return self }
        return FileWrapper(.directory(all.mapValues { $0.snapshot() }), preferredFilename, origin)
    }

    private static func numbered(_ name: String, _ number: Int) -> String {
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return "\(name) \(number)" }
        return "\(name[..<dot]) \(number)\(name[dot...])"
    }
}

/// The attributes by which a file on disk is recognized as unchanged.
struct FileStamp: Hashable, Sendable {
    var inode: UInt64
    var size: Int64
    var modifiedAt: Timestamp
    var kind: FileKind

    init(_ status: FileStatus) {
        inode = status.inode
        // A folder's size and times do not depend on its files' contents, and change with each save.
        size = status.isDirectory ? 0 : status.size
        modifiedAt = status.isDirectory ? Timestamp(nanoseconds: 0) : status.modifiedAt
        kind = status.kind
    }
}

/// The current path of a document. Wrappers share it to read contents later, and it is updated when the document moves.
final class DocumentPlace: Sendable {
    private let current: Lock<String>

    init(_ path: String) { current = Lock(path) }

    var path: String { current.withLock { $0 } }
    func move(to path: String) { current.withLock { $0 = path } }
}
