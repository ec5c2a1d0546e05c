import Glibc
import UbiquityCore

/// The result of stat(2).
package struct FileStatus: Hashable, Sendable {
    /// Size in bytes.
    package let size: Int64
    /// Type and permission bits, as the system has them.
    package let mode: UInt32
    package let inode: UInt64
    package let device: UInt64
    package let links: Int
    /// Allocated blocks of 512 bytes.
    package let blocks: Int64
    package var allocatedBytes: Int64 { blocks * 512 }
    package let user: UInt32
    package let group: UInt32
    /// The device number of a device node.
    package let deviceNumber: UInt64
    package let accessedAt: Timestamp
    package let modifiedAt: Timestamp
    package let changedAt: Timestamp

    init(_ status: stat) {
        size = Int64(status.st_size)
        mode = UInt32(status.st_mode)
        inode = UInt64(status.st_ino)
        device = UInt64(status.st_dev)
        links = Int(status.st_nlink)
        blocks = Int64(status.st_blocks)
        user = UInt32(status.st_uid)
        group = UInt32(status.st_gid)
        deviceNumber = UInt64(status.st_rdev)
        accessedAt = Timestamp(status.st_atim)
        modifiedAt = Timestamp(status.st_mtim)
        changedAt = Timestamp(status.st_ctim)
    }

    /// Permission bits, 0o7777.
    package var permissions: UInt32 { mode & 0o7777 }

    package var kind: FileKind { FileKind(mode: mode) }
    package var isFile: Bool { kind == .file }
    package var isDirectory: Bool { kind == .directory }
    package var isSymlink: Bool { kind == .symlink }
}

/// The kind of item at a path.
package enum FileKind: Hashable, Sendable {
    case file, directory, symlink, fifo, socket, characterDevice, blockDevice, unknown

    package init(mode: UInt32) {
        switch mode & UInt32(S_IFMT) {
        case UInt32(S_IFREG): self = .file
        case UInt32(S_IFDIR): self = .directory
        case UInt32(S_IFLNK): self = .symlink
        case UInt32(S_IFIFO): self = .fifo
        case UInt32(S_IFSOCK): self = .socket
        case UInt32(S_IFCHR): self = .characterDevice
        case UInt32(S_IFBLK): self = .blockDevice
        default: self = .unknown
        }
    }

    init(directoryEntryType type: Int32) {
        switch type {
        case Int32(DT_REG): self = .file
        case Int32(DT_DIR): self = .directory
        case Int32(DT_LNK): self = .symlink
        case Int32(DT_FIFO): self = .fifo
        case Int32(DT_SOCK): self = .socket
        case Int32(DT_CHR): self = .characterDevice
        case Int32(DT_BLK): self = .blockDevice
        default: self = .unknown
        }
    }
}

extension Timestamp {
    package init(_ time: timespec) { self.init(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec)) }

    package var timespec: timespec { Glibc.timespec(tv_sec: Int(seconds), tv_nsec: Int(subsecondNanoseconds)) }
}

/// The result of statvfs(3).
package struct FileSystemStatus: Hashable, Sendable {
    package let blockSize: Int64
    /// In units of `blockSize`.
    package private(set) var blocks: Int64
    package private(set) var freeBlocks: Int64
    /// Free for users other than root.
    package private(set) var availableBlocks: Int64
    package let files: Int64
    package let freeFiles: Int64

    init(_ status: statvfs) {
        blockSize = Int64(status.f_frsize)
        blocks = Int64(status.f_blocks)
        freeBlocks = Int64(status.f_bfree)
        availableBlocks = Int64(status.f_bavail)
        files = Int64(clamping: status.f_files)
        freeFiles = Int64(clamping: status.f_ffree)
    }

    /// Returns the status limited by an account's quota: the smaller free space counts.
    ///
    /// - Parameters:
    ///   - quota: Bytes that the account may hold.
    ///   - used: Bytes that it holds.
    package func within(quota: Int64, used: Int64) -> FileSystemStatus {
        let left = max(0, max(0, quota) - max(0, used)) / blockSize
        var result = self
        result.freeBlocks = min(freeBlocks, left)
        result.availableBlocks = min(availableBlocks, left)
        result.blocks = max(0, used) / blockSize + result.freeBlocks
        return result
    }

    package var totalBytes: Int64 { blocks * blockSize }
    package var availableBytes: Int64 { availableBlocks * blockSize }
}
