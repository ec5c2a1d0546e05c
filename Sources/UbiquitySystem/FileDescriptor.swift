import CUbiquityShims
import Glibc
import UbiquityCore

/// An open file, closed when the last reference to this object is released. Child processes never inherit it.
package final class FileDescriptor: Sendable {
    /// The number. It is valid while this object lives: use `withExtendedLifetime` around calls elsewhere.
    package let rawValue: Int32

    /// Takes ownership of an open descriptor.
    package init(owning rawValue: Int32) { self.rawValue = rawValue }

    deinit { close(rawValue) }

    /// Flags of open(2). `O_CLOEXEC` is always added.
    package struct Flags: OptionSet, Hashable, Sendable {
        package let rawValue: Int32
        package init(rawValue: Int32) { self.rawValue = rawValue }

        package static let readOnly = Flags(rawValue: O_RDONLY)
        package static let writeOnly = Flags(rawValue: O_WRONLY)
        package static let readWrite = Flags(rawValue: O_RDWR)
        package static let create = Flags(rawValue: O_CREAT)
        package static let exclusive = Flags(rawValue: O_EXCL)
        package static let truncate = Flags(rawValue: O_TRUNC)
        package static let append = Flags(rawValue: O_APPEND)
        package static let nonBlocking = Flags(rawValue: O_NONBLOCK)
        package static let directory = Flags(rawValue: CUbiquity_O_DIRECTORY)
        package static let noFollow = Flags(rawValue: CUbiquity_O_NOFOLLOW)
        /// Only identifies the file: no reading, no writing, no permission on the file itself needed.
        package static let pathOnly = Flags(rawValue: CUbiquity_O_PATH)
        /// A file without a name in the directory that is opened.
        package static let temporary = Flags(rawValue: CUbiquity_O_TMPFILE)
    }

    /// - Parameter mode: The permissions of a new file, before the umask.
    package static func open(
        _ path: some CPath, _ flags: Flags, mode: UInt32 = 0o600
    ) throws(Errno) -> FileDescriptor {
        try open(at: AT_FDCWD, path, flags, mode: mode)
    }

    /// Opens a file of this program. Another item may have its place; opening a pipe, for example, would block.
    ///
    /// - Throws: `ENXIO` for a pipe, a socket or a device; `EISDIR` for a folder.
    package static func openFile(
        _ path: some CPath, _ flags: Flags, mode: UInt32 = 0o600
    ) throws(Errno) -> FileDescriptor {
        let file: FileDescriptor
        // A process has a lease on it, which only regular files can have.
        do throws(Errno) { file = try open(path, flags.union(.nonBlocking), mode: mode) } catch .EAGAIN {
            file = try open(path, flags, mode: mode)
        }
        switch try file.status().kind {
        case .file: return file
        case .directory: throw .EISDIR
        default: throw .ENXIO
        }
    }

    /// Opens `name` in this directory.
    package func open(_ name: some CPath, _ flags: Flags, mode: UInt32 = 0o600) throws(Errno) -> FileDescriptor {
        try Self.open(at: rawValue, name, flags, mode: mode)
    }

    private static func open(
        at directory: Int32, _ path: some CPath, _ flags: Flags, mode: UInt32
    ) throws(Errno) -> FileDescriptor {
        let number = try path.withCPath { path throws(Errno) in
            try retrying { CUbiquity_openat(directory, path, flags.rawValue | O_CLOEXEC, mode) }
        }
        return FileDescriptor(owning: number)
    }

    /// Opens the same file again, for reading only; also a file without a name.
    package func reopenedForReading() throws(Errno) -> FileDescriptor {
        try Self.open("/proc/self/fd/\(rawValue)", .readOnly)
    }

    /// Opens the same file again, for reading and writing.
    package func reopenedForWriting() throws(Errno) -> FileDescriptor {
        try Self.open("/proc/self/fd/\(rawValue)", .readWrite)
    }

    /// Returns another descriptor of the same open file.
    package func duplicate() throws(Errno) -> FileDescriptor {
        FileDescriptor(owning: try check(fcntl(rawValue, F_DUPFD_CLOEXEC, 0)))
    }

    package func status() throws(Errno) -> FileStatus {
        var result = stat()
        _ = try check(fstat(rawValue, &result))
        return FileStatus(result)
    }

    /// Returns the status of `name` in this directory; for a symlink its own.
    package func status(of name: some CPath) throws(Errno) -> FileStatus {
        var result = stat()
        _ = try name.withCPath { name throws(Errno) in
            try check(fstatat(rawValue, name, &result, AT_SYMLINK_NOFOLLOW))
        }
        return FileStatus(result)
    }

    /// Returns when the file was created; nil if the file system does not record it.
    package func createdAt() throws(Errno) -> Timestamp? {
        var time = CUbiquity_BirthTime()
        _ = try check(CUbiquity_birthTime(rawValue, "", CUbiquity_AT_EMPTY_PATH, &time))
        guard time.hasBirthTime != 0 else { return nil }
        return Timestamp(seconds: time.seconds, nanoseconds: Int64(time.nanoseconds))
    }

    package func fileSystemStatus() throws(Errno) -> FileSystemStatus {
        var result = statvfs()
        _ = try retrying { fstatvfs(rawValue, &result) }
        return FileSystemStatus(result)
    }

    package func truncate(to size: Int64) throws(Errno) { _ = try retrying { ftruncate(rawValue, off_t(size)) } }

    /// Nil leaves a time unchanged.
    package func setTimes(accessed: Timestamp?, modified: Timestamp?) throws(Errno) {
        let times = [accessed, modified].map { $0?.timespec ?? timespec(tv_sec: 0, tv_nsec: utimeOmit) }
        _ = try check(futimens(rawValue, times))
    }

    package func setPermissions(_ mode: UInt32) throws(Errno) { _ = try retrying { fchmod(rawValue, mode_t(mode)) } }

    package func setOwner(user: UInt32, group: UInt32) throws(Errno) {
        _ = try retrying { fchown(rawValue, uid_t(user), gid_t(group)) }
    }

    /// Returns when data and metadata are on disk. After a failure the data must be written again.
    package func sync() throws(Errno) { _ = try retrying { fsync(rawValue) } }

    /// Returns when the data and the size are on disk.
    package func syncData() throws(Errno) { _ = try retrying { fdatasync(rawValue) } }

    /// Starts writing the data to disk without waiting.
    package func startWriting() throws(Errno) { _ = try retrying { CUbiquity_startWriting(rawValue) } }

    /// Writes the data to disk and waits until the device has it. A power loss can still take it from the device's
    /// cache until that is flushed; see `sharedFlushes`.
    package func finishWriting() throws(Errno) { _ = try retrying { CUbiquity_finishWriting(rawValue) } }

    /// Syncs everything in this file's file system.
    package func syncFileSystem() throws(Errno) { _ = try retrying { CUbiquity_syncfs(rawValue) } }
}

/// UTIME_OMIT, whose macro is not imported.
let utimeOmit = (1 << 30) - 2
