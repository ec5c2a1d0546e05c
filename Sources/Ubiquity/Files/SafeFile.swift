import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// Calls that block run here, so that a wait does not hold up the program's tasks.
enum FileAccess {
    private static let threads = 4
    private static let pool = BlockingPool(name: "ubiquity-files", threads: threads)

    /// Reads that wait for downloads; a program has few documents open.
    private static let waitingThreads = 8
    private static let waitingPool = BlockingPool(name: "ubiquity-reads", threads: waitingThreads)

    static func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await pool.run(body)
    }

    /// For what reads contents, and so may wait for a download: saves and looks at the disk go on meanwhile.
    static func waiting<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await waitingPool.run(body)
    }
}

/// Files that are written aside and then put in their place by one rename: at every moment, whatever fails, the old
/// content stands there or the new one, whole. What was said of the file (mode, attributes) stays.
enum SafeFile {
    /// Bytes in one read: a document that is handed over as one block of memory is not larger.
    static let maximumLength = 1 << 31

    static func read(_ path: String) throws(UbiquityError) -> [UInt8] {
        guard let bytes = try SmallFile.read(path, limit: maximumLength) else {
            throw UbiquityError(.notFound, "no such file", at: path)
        }
        return bytes
    }

    static func write(_ bytes: [UInt8], to path: String) throws(UbiquityError) {
        let place = try resolved(path)
        let staged = try stage(near: place) { file throws(Errno) in try file.write(bytes) }
        try publish(staged, at: place)
    }

    /// Copies a file's content, and nothing else of it.
    static func copy(_ source: String, to path: String) throws(UbiquityError) {
        let place = try resolved(path)
        let from = try describing("read", at: source) { () throws(Errno) in
            try FileDescriptor.open(source, .readOnly)
        }
        let staged = try stage(near: place) { file throws(Errno) in
            _ = try file.copy(from: from, at: 0, to: 0, count: .max)
        }
        try publish(staged, at: place)
    }

    /// What a symlink leads to is written, and not put in the link's place.
    static func resolved(_ path: String) throws(UbiquityError) -> String {
        try describing("find", at: path) { () throws(Errno) in
            guard try FileSystem.exists(path), try FileSystem.status(path).isSymlink else { return path }
            return try FileSystem.realPath(path)
        }
    }

    /// A new file beside `path`, written and on the disk.
    static func stage(
        near path: String, _ fill: (FileDescriptor) throws(Errno) -> Void
    ) throws(UbiquityError) -> String {
        let staged = temporaryName(beside: path)
        do {
            let file = try FileDescriptor.open(staged, [.readWrite, .create, .exclusive], mode: 0o666)
            try fill(file)
            try takeOver(from: path, to: file)
            try file.sync()
        } catch {
            // What is left is a file that nothing leads to; its name is one of those that are not synced.
            try? FileSystem.unlink(staged)
            throw UbiquityError(error, doing: "write", at: path)
        }
        return staged
    }

    static func publish(_ staged: String, at path: String) throws(UbiquityError) {
        do throws(Errno) { try FileSystem.rename(staged, to: path) } catch {
            try? FileSystem.unlink(staged)
            throw UbiquityError(error, doing: "write", at: path)
        }
    }

    /// A name as editors give to backups: such files stay on their device.
    static func temporaryName(beside path: String) -> String {
        var random = SystemRandomNumberGenerator()
        let end = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        let mark = String(random.next() as UInt64, radix: 36)
        return "\(path[..<end]).\(path[end...].prefix(longestBeginning)).\(mark)~"
    }

    /// Characters of a name that go into that of its temporary file, so that it stays a name (255 bytes of at most
    /// four a character).
    private static let longestBeginning = 40

    /// Mode and attributes of what stands at the path already.
    private static func takeOver(from path: String, to file: FileDescriptor) throws(Errno) {
        guard try FileSystem.exists(path) else { return }
        let status = try FileSystem.status(path)
        guard status.isFile else { return }
        try file.setPermissions(status.permissions)
        let names = try FileSystem.xattrNames(path).filter {
            $0.starts(with: Array("user.".utf8)) && !$0.starts(with: Array("user.ubiquity.".utf8))
        }
        for name in names {
            if let value = try FileSystem.xattr(path, name) { try file.setXattr(name, value) }
        }
    }
}

extension URL {
    /// The path as the system takes it, without a slash at the end.
    var systemPath: String {
        let path = self.path
        return path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
    }
}
