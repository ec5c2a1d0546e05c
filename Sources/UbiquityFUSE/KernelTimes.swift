internal import CFUSE
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// How long the kernel may cache an answer, in seconds.
///
/// Only the mount and the sync engine change the tree, and changes of the engine are announced (`KernelCache`). So the
/// time only bounds the effect of a missed invalidation: one day.
enum KernelTimes {
    static let entry: Double = 86_400
    static let attributes: Double = 86_400
    static let absence: Double = 86_400
}

extension NodeAttributes {
    /// In bytes: the unit of page-cache I/O.
    static let blockSize = 4096

    /// The attributes in libfuse's form.
    var status: stat {
        var status = stat()
        status.st_ino = UInt(ino)
        status.st_mode = mode
        status.st_rdev = UInt(device)
        status.st_nlink = UInt(links)
        status.st_uid = uid
        status.st_gid = gid
        status.st_size = Int(size)
        status.st_blocks = Int(blocks)
        status.st_blksize = Self.blockSize
        status.st_atim = accessedAt.timespec
        status.st_mtim = modifiedAt.timespec
        status.st_ctim = changedAt.timespec
        return status
    }

    /// How long the kernel may cache them, in seconds.
    var attributeTime: Double { isVolatile || isChanging ? 0 : KernelTimes.attributes }

    /// A directory entry with these attributes. Numbers are not reused while the kernel has them, so
    /// the generation is always 0.
    func entry(_ numbers: NodeNumbers) -> fuse_entry_param {
        var entry = fuse_entry_param()
        entry.ino = numbers.number(ino)
        entry.attr = status
        entry.attr_timeout = attributeTime
        entry.entry_timeout = isVolatile ? 0 : KernelTimes.entry
        return entry
    }
}

extension fuse_entry_param {
    /// "There is no such name", cached as long as any entry.
    static var absent: fuse_entry_param {
        var entry = fuse_entry_param()
        entry.ino = 0
        entry.entry_timeout = KernelTimes.absence
        return entry
    }

    /// "There is no such name", not cached.
    static var absentNow: fuse_entry_param { fuse_entry_param() }
}
