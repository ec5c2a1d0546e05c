import CUbiquityShims
import Glibc
import UbiquityCore

/// Calls on paths. None of them follows a symlink at the end of the path unless it says so.
package enum FileSystem {
    /// Of a symlink itself.
    package static func status(_ path: some CPath) throws(Errno) -> FileStatus {
        var result = stat()
        _ = try path.withCPath { path throws(Errno) in try check(lstat(path, &result)) }
        return FileStatus(result)
    }

    /// Of what the path leads to, through symlinks.
    package static func statusFollowing(_ path: some CPath) throws(Errno) -> FileStatus {
        var result = stat()
        _ = try path.withCPath { path throws(Errno) in try check(stat(path, &result)) }
        return FileStatus(result)
    }

    /// Whether something stands at the path (a broken symlink too).
    package static func exists(_ path: some CPath) throws(Errno) -> Bool {
        do throws(Errno) {
            _ = try status(path)
            return true
        } catch {
            if error == .ENOENT { return false }
            throw error
        }
    }

    /// Whether the path leads to a file: not if it leads nowhere.
    package static func isFile(_ path: some CPath) -> Bool { (try? statusFollowing(path))?.isFile ?? false }

    package static func fileSystemStatus(_ path: some CPath) throws(Errno) -> FileSystemStatus {
        var result = statvfs()
        _ = try path.withCPath { path throws(Errno) in try retrying { statvfs(path, &result) } }
        return FileSystemStatus(result)
    }

    package static func makeDirectory(_ path: some CPath, mode: UInt32 = 0o700) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(mkdir(path, mode_t(mode))) }
    }

    /// Makes the directory and those above it that are missing, all with `mode`.
    package static func makeDirectories(_ path: String, mode: UInt32 = 0o700) throws(Errno) {
        do throws(Errno) {
            try makeDirectory(path, mode: mode)
        } catch .EEXIST {
            guard try statusFollowing(path).isDirectory else { throw .ENOTDIR }
        } catch .ENOENT {
            let parent = Path.parent(of: path)
            guard parent != path else { throw .ENOENT }
            try makeDirectories(parent, mode: mode)
            // Made meanwhile by another is as good; missing still (/proc has such folders) is a failure.
            do throws(Errno) { try makeDirectory(path, mode: mode) } catch .EEXIST { return }
        }
    }

    package static func removeDirectory(_ path: some CPath) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(rmdir(path)) }
    }

    package static func unlink(_ path: some CPath) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(Glibc.unlink(path)) }
    }

    /// Removes a file, or a directory with all that is in it. Nothing there is no failure.
    package static func removeTree(_ path: String) throws(Errno) {
        do throws(Errno) {
            if try status(path).isDirectory {
                for entry in try entries(of: path) {
                    try removeTree(Path.join(Array(path.utf8), entry.name))
                }
                try removeDirectory(path)
            } else {
                try unlink(path)
            }
        } catch .ENOENT {
            return
        }
    }

    private static func removeTree(_ path: [UInt8]) throws(Errno) {
        guard try status(path).isDirectory else { return try unlink(path) }
        for entry in try entries(of: path) { try removeTree(Path.join(path, entry.name)) }
        try removeDirectory(path)
    }

    /// How renameat2(2) treats what stands at the new name.
    package enum RenameMode: UInt32, Sendable {
        case replace = 0
        case noReplace = 1
        case exchange = 2
    }

    package static func rename(
        _ old: some CPath, to new: some CPath, _ mode: RenameMode = .replace
    ) throws(Errno) {
        _ = try old.withCPath { old throws(Errno) in
            try new.withCPath { new throws(Errno) in
                try check(CUbiquity_renameat2(AT_FDCWD, old, AT_FDCWD, new, mode.rawValue))
            }
        }
    }

    /// Another name for a file.
    package static func link(_ path: some CPath, as new: some CPath) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in
            try new.withCPath { new throws(Errno) in try check(Glibc.link(path, new)) }
        }
    }

    package static func symlink(_ text: some CPath, at path: some CPath) throws(Errno) {
        _ = try text.withCPath { text throws(Errno) in
            try path.withCPath { path throws(Errno) in try check(Glibc.symlink(text, path)) }
        }
    }

    /// A symlink's text.
    package static func readLink(_ path: some CPath) throws(Errno) -> [UInt8] {
        try path.withCPath { path throws(Errno) in
            let capacity = Int(PATH_MAX)
            var text = [CChar](repeating: 0, count: capacity)
            let length = try check(readlink(path, &text, capacity))
            return text[..<length].map(UInt8.init(bitPattern:))
        }
    }

    /// Follows symlinks.
    package static func setPermissions(_ path: some CPath, _ mode: UInt32) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(chmod(path, mode_t(mode))) }
    }

    package static func setOwner(_ path: some CPath, user: UInt32, group: UInt32) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(lchown(path, uid_t(user), gid_t(group))) }
    }

    /// Nil leaves a time as it is.
    package static func setTimes(_ path: some CPath, accessed: Timestamp?, modified: Timestamp?) throws(Errno) {
        let times = [accessed, modified].map { $0?.timespec ?? timespec(tv_sec: 0, tv_nsec: utimeOmit) }
        _ = try path.withCPath { path throws(Errno) in
            try check(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW))
        }
    }

    /// Follows symlinks.
    package static func truncate(_ path: some CPath, to size: Int64) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try retrying { Glibc.truncate(path, off_t(size)) } }
    }

    /// A FIFO, socket or device node; `mode` carries the type.
    package static func makeNode(_ path: some CPath, mode: UInt32, device: UInt64) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(mknod(path, mode_t(mode), dev_t(device))) }
    }

    /// The absolute path without symlinks, "." and "..".
    package static func realPath(_ path: some CPath) throws(Errno) -> String {
        try path.withCPath { path throws(Errno) in
            guard let found = realpath(path, nil) else { throw .last }
            defer { free(found) }
            return String(cString: found)
        }
    }

    /// The directory's own name, and those of the ones above it that belong to this user and lie on the same file
    /// system, are on the disk when it returns: what stands in a directory that has lost its name is lost as well.
    package static func syncPath(to path: String) throws(Errno) {
        let device = try statusFollowing(path).device
        var path = path
        while true {
            let parent = Path.parent(of: path)
            guard parent != path else { return }
            let status = try statusFollowing(parent)
            guard status.device == device, status.user == ProcessHost.userID else { return }
            do throws(Errno) { try syncDirectory(parent) } catch .EACCES { return }
            path = parent
        }
    }

    /// The names in a directory are on the disk when it returns.
    package static func syncDirectory(_ path: some CPath) throws(Errno) {
        try FileDescriptor.open(path, [.readOnly, .directory]).sync()
    }
}
