import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// Runs blocking calls on threads of their own, so that the program's tasks do not wait.
enum FileAccess {
    private static let threads = 4
    private static let pool = BlockingPool(name: "ubiquity-files", threads: threads)

    /// Threads for reads that wait for downloads; a program has few documents open.
    private static let waitingThreads = 8
    private static let waitingPool = BlockingPool(name: "ubiquity-reads", threads: waitingThreads)

    static func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await pool.run(body)
    }

    /// Runs a call that reads content and may wait for a download. Saves and checks use the other pool, so they
    /// continue.
    static func waiting<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await waitingPool.run(body)
    }
}

/// Writes files through a temporary file and one rename. At every moment, whatever fails, the path holds the whole old
/// or the whole new content. Mode and attributes of the old file are kept.
enum SafeFile {
    /// Maximum bytes of one read. Larger documents cannot be passed as one block of memory.
    static let maximumLength = 1 << 31

    static func read(_ path: String) throws(UbiquityError) -> [UInt8] {
        guard let bytes = try SmallFile.read(path, limit: maximumLength) else {
            throw UbiquityError(.notFound, "no such file", at: path)
        }
        return bytes
    }

    /// Writes a new file; it must not exist.
    static func create(_ bytes: [UInt8], at path: String) throws(UbiquityError) {
        try describing("write", at: path) { () throws(Errno) in
            try FileDescriptor.open(path, [.readWrite, .create, .exclusive], mode: 0o666).write(bytes)
        }
    }

    /// Puts a file that lies beside the path in its place, with the mode and attributes of the old file.
    ///
    /// - Parameter prepare: Changes the new file's attributes before it is visible.
    static func replace(
        _ path: String, with staged: String, _ prepare: () throws(UbiquityError) -> Void = {}
    ) throws(UbiquityError) {
        let file = try describing("write", at: path) { () throws(Errno) in
            let file = try FileDescriptor.open(staged, .readWrite)
            try takeOver(from: path, to: file)
            return file
        }
        try prepare()
        try describing("write", at: path) { () throws(Errno) in try file.sync() }
        try publish(staged, at: path)
    }

    /// Copies a file's content, without its mode and attributes.
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

    /// Returns a symlink's target, so that a write does not replace the link.
    static func resolved(_ path: String) throws(UbiquityError) -> String {
        try describing("find", at: path) { () throws(Errno) in
            guard try FileSystem.exists(path), try FileSystem.status(path).isSymlink else { return path }
            return try FileSystem.realPath(path)
        }
    }

    /// Writes a new temporary file beside `path` and flushes it to disk.
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
            // A file that stays has a name that is not synced.
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

    /// Returns a temporary name in the form of an editor's backup: such files are not synced.
    static func temporaryName(beside path: String) -> String {
        var random = SystemRandomNumberGenerator()
        let end = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        let mark = String(random.next() as UInt64, radix: 36)
        return "\(path[..<end]).\(path[end...].prefix(longestBeginning)).\(mark)~"
    }

    /// Characters of the original name in its temporary name. The result stays below 255 bytes, at up to four bytes a
    /// character.
    private static let longestBeginning = 40

    /// Copies mode and attributes of the file at the path, if there is one.
    private static func takeOver(from path: String, to file: FileDescriptor) throws(Errno) {
        guard try FileSystem.exists(path) else { return }
        let status = try FileSystem.status(path)
        guard status.isFile else { return }
        try file.setPermissions(status.permissions)
        let names = try FileSystem.xattrNames(path).filter {
            $0.starts(with: Array("user.".utf8)) && !$0.starts(with: StatusAttribute.prefixBytes)
        }
        for name in names {
            if let value = try FileSystem.xattr(path, name) { try file.setXattr(name, value) }
        }
    }
}

extension URL {
    /// The path as system calls take it, without a slash at the end.
    var systemPath: String {
        let path = self.path
        return path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
    }
}
