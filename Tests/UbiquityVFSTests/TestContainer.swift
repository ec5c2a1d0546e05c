import Logging
import UbiquityContent
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// A container's file system over a real index and real backing files in a temporary folder, without a kernel.
final class TestContainer: Sendable {
    let folder: String
    let index: ItemIndex
    let contents: ContentStore
    let cloud: FakeCloud
    let control = FakeControl()
    let kernel = RecordingKernelCache()
    let raw: ContainerFileSystem
    /// The file system as programs see it.
    let fs: ClaimedFileSystem
    let caller = Caller(uid: 1000, gid: 1000, pid: 0)
    static let root: UInt64 = 1

    init(
        passthrough: any Passthrough = NoPassthrough(), preparation: BlockingPool? = nil, delaysCloses: Bool = false,
        smallContent: Int64 = 0, coordination: Coordination? = nil, backgroundReaders: BackgroundReaders = .none,
        filesWithTwoDescriptors: Int = 1000, showsConflicts: Bool = false, vacancy: String? = nil,
        numbers: NodeNumbers = .first
    ) throws {
        folder = "/tmp/ubiquity-vfs-\(SystemRandom().next())"
        try FileSystem.makeDirectories(folder)
        index = try ItemIndex(path: folder + "/index.db", timekeeper: SystemTimekeeper(), random: SystemRandom())
        contents = try ContentStore(stateFolder: folder)
        cloud = FakeCloud(index: index, contents: contents)
        guard let container = ContainerID("test") else { throw UbiquityError(.invalid, "no container id") }
        raw = try ContainerFileSystem(
            FileSystemParts(
                index: index, contents: contents, materializer: cloud, transfers: cloud, control: control,
                versions: cloud, kernel: kernel, passthrough: passthrough, timekeeper: SystemTimekeeper(),
                container: container, logger: Logger(label: "test"), coordination: coordination,
                backgroundReaders: backgroundReaders, preparation: preparation, delaysCloses: delaysCloses,
                vacancy: vacancy, smallContent: smallContent,
                filesWithTwoDescriptors: filesWithTwoDescriptors, showsConflicts: showsConflicts),
            owner: (1000, 1000))
        fs = ClaimedFileSystem(raw, numbers: numbers)
    }

    deinit {
        try? index.close()
        try? FileSystem.removeTree(folder)
    }

    // MARK: Calls of programs

    @discardableResult
    func create(_ name: String, in parent: UInt64 = root, _ text: String = "") throws -> UInt64 {
        let made = try fs.create(
            parent: parent, name: Array(name.utf8), mode: 0o644, flags: [.readWrite, .create], caller: caller).immediate
        if !text.isEmpty { try write(text, to: made.opened.handle) }
        fs.release(made.opened.handle)
        return made.attributes.ino
    }

    func write(_ text: String, to handle: UInt64, at offset: Int64 = 0) throws {
        _ = try Array(text.utf8).withUnsafeBytes {
            try fs.write(handle, offset: offset, $0, caller: caller)
        }
    }

    @discardableResult
    func makeDirectory(_ name: String, in parent: UInt64 = root) throws -> UInt64 {
        try fs.makeDirectory(parent: parent, name: Array(name.utf8), mode: 0o755, caller: caller).immediate.ino
    }

    func lookup(_ name: String, in parent: UInt64 = root) throws -> NodeAttributes? {
        try fs.lookup(parent: parent, name: Array(name.utf8)).immediate
    }

    func open(_ ino: UInt64, _ flags: OpenFlags = []) async throws -> UInt64 {
        try await fs.open(ino, flags: flags, caller: caller).value.handle
    }

    func read(_ handle: UInt64, at offset: Int64 = 0, _ length: Int = 1 << 20) async throws -> String {
        let data = try await fs.read(handle, offset: offset, length: length).value
        return String(decoding: try data.descriptor.read(count: data.length, at: data.offset), as: UTF8.self)
    }

    func content(of ino: UInt64) async throws -> String {
        let handle = try await open(ino)
        defer { fs.release(handle) }
        return try await read(handle)
    }

    func rename(
        _ name: String, in parent: UInt64 = root, to newName: String, inFolder newParent: UInt64 = root,
        flags: UInt32 = 0
    ) throws {
        try fs.rename(
            parent: parent, name: Array(name.utf8), newParent: newParent, newName: Array(newName.utf8), flags: flags).immediate
    }

    func unlink(_ name: String, in parent: UInt64 = root) throws {
        try fs.unlink(parent: parent, name: Array(name.utf8)).immediate
    }

    /// Removes a name, or decides about a version.
    func remove(_ name: String, in parent: UInt64, directory: Bool) async throws {
        let name = Array(name.utf8)
        if directory {
            try await fs.removeDirectory(parent: parent, name: name, caller: caller).value
        } else {
            try await fs.unlink(parent: parent, name: name, caller: caller).value
        }
    }

    func set(_ ino: UInt64, _ changes: AttributeChanges, handle: UInt64? = nil) async throws -> NodeAttributes {
        try await fs.setAttributes(of: ino, changes, handle: handle, caller: caller).value
    }

    func names(in ino: UInt64 = root) throws -> [String] {
        var names = [String]()
        try fs.readDirectory(ino, offset: 0, withAttributes: false, room: 64) {
            names.append(String(decoding: $0.name, as: UTF8.self))
            return true
        }
        return Array(names.dropFirst(2))
    }

    func status(_ ino: UInt64, _ name: String) throws -> String {
        String(decoding: try fs.xattr(of: ino, name: Array("user.ubiquity.\(name)".utf8)), as: UTF8.self)
    }
}

extension Answer {
    /// The value of an operation that need not wait.
    var immediate: Value {
        get throws {
            guard case .now(let value) = self else { throw Errno.EAGAIN }
            return value
        }
    }
}

/// The errno of what `body` throws, nil if it throws nothing.
func errno(_ body: () throws -> Void) -> Errno? {
    do { try body() } catch { return Errno(describing: error) }
    return nil
}

func errno(_ body: () async throws -> Void) async -> Errno? {
    do { try await body() } catch { return Errno(describing: error) }
    return nil
}

/// Waits until `condition` holds: true at once then, false after three minutes. (The condition may need one of the
/// pool's few threads, which other tests occupy for long on a busy machine.)
func eventually(_ condition: @Sendable () async throws -> Bool) async throws -> Bool {
    let clock = ContinuousClock()
    let deadline = clock.now + .seconds(180)
    while clock.now < deadline {
        if try await condition() { return true }
        // A loop without a pause would occupy the pool's few threads, which the condition needs.
        try await Task.sleep(for: .milliseconds(1))
    }
    return false
}
