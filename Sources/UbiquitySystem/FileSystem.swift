import CUbiquityShims
import Glibc
import UbiquityCore

/// Calls on paths. None follows a symlink at the end of the path unless its comment says so.
package enum FileSystem {
    /// Returns the status of an item; for a symlink its own.
    package static func status(_ path: some CPath) throws(Errno) -> FileStatus {
        var result = stat()
        _ = try path.withCPath { path throws(Errno) in try check(lstat(path, &result)) }
        return FileStatus(result)
    }

    /// Returns the status of the path's target, through symlinks.
    package static func statusFollowing(_ path: some CPath) throws(Errno) -> FileStatus {
        var result = stat()
        _ = try path.withCPath { path throws(Errno) in try check(stat(path, &result)) }
        return FileStatus(result)
    }

    /// Returns whether the path exists (a broken symlink counts).
    package static func exists(_ path: some CPath) throws(Errno) -> Bool {
        do throws(Errno) {
            _ = try status(path)
            return true
        } catch {
            if error == .ENOENT { return false }
            throw error
        }
    }

    /// Returns whether the path leads to a file; false if it leads nowhere.
    package static func isFile(_ path: some CPath) -> Bool { (try? statusFollowing(path))?.isFile ?? false }

    package static func fileSystemStatus(_ path: some CPath) throws(Errno) -> FileSystemStatus {
        var result = statvfs()
        _ = try path.withCPath { path throws(Errno) in try retrying { statvfs(path, &result) } }
        return FileSystemStatus(result)
    }

    package static func makeDirectory(_ path: some CPath, mode: UInt32 = 0o700) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(mkdir(path, mode_t(mode))) }
    }

    /// Makes the directory and the missing ones above it, all with `mode`.
    package static func makeDirectories(_ path: String, mode: UInt32 = 0o700) throws(Errno) {
        do throws(Errno) {
            try makeDirectory(path, mode: mode)
        } catch .EEXIST {
            guard try statusFollowing(path).isDirectory else { throw .ENOTDIR }
        } catch .ENOENT {
            let parent = Path.parent(of: path)
            guard parent != path else { throw .ENOENT }
            try makeDirectories(parent, mode: mode)
            // Another process may have made it meanwhile. If it is still missing (/proc has such folders), that is an
            // error.
            do throws(Errno) { try makeDirectory(path, mode: mode) } catch .EEXIST { return }
        }
    }

    package static func removeDirectory(_ path: some CPath) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(rmdir(path)) }
    }

    package static func unlink(_ path: some CPath) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(Glibc.unlink(path)) }
    }

    /// Removes a file, or a directory with everything in it. A missing path is not an error.
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

    /// How renameat2(2) treats an item at the new name.
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

    /// Makes another name for a file.
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

    /// Returns a symlink's text.
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

    /// Nil leaves a time unchanged.
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

    /// Makes a FIFO, socket or device node; `mode` includes the type.
    package static func makeNode(_ path: some CPath, mode: UInt32, device: UInt64) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(mknod(path, mode_t(mode), dev_t(device))) }
    }

    /// Returns the absolute path without symlinks, "." and "..".
    package static func realPath(_ path: some CPath) throws(Errno) -> String {
        try path.withCPath { path throws(Errno) in
            guard let found = realpath(path, nil) else { throw .last }
            defer { free(found) }
            return String(cString: found)
        }
    }

    /// Syncs the directory's own name, and those of the directories above it that belong to this user and are on the
    /// same file system. If a directory's name is lost, everything in it is lost too.
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

    /// Syncs the names in a directory.
    package static func syncDirectory(_ path: some CPath) throws(Errno) {
        try FileDescriptor.open(path, [.readOnly, .directory]).sync()
    }
}
