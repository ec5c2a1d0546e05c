internal import CFUSE
internal import CUbiquityShims
internal import UbiquitySystem
internal import UbiquityVFS

// Answers that name a backing file, which libfuse 3.14 cannot send.

extension CUbiquity_OpenReply {
    /// The answer to an open with passthrough. The kernel would refuse the flag that keeps its cache, because
    /// passthrough has none.
    ///
    /// With O_DIRECT only mappings bypass this process. The kernel opens the backing file with that flag. It leaves the
    /// flag there when a program removes it from its own handle (F_SETFL), as dd does before a last partial block; the
    /// write would fail with EINVAL. With O_APPEND the kernel would place such writes at the size it knows, which
    /// before 6.12 may be outdated after writes past this process. So those use passthrough too, and keep the flag.
    /// - Parameter flags: of open(2).
    init(_ opened: OpenedFile, _ backing: BackingID, _ flags: Int32) {
        let isAppending = OpenFlags(rawValue: flags).contains(.append)
        let direct = flags & CUbiquity_O_DIRECT != 0 && !isAppending ? CUbiquity_FOPEN_DIRECT_IO : 0
        self.init(
            handle: opened.handle, flags: CUbiquity_FOPEN_PASSTHROUGH | CUbiquity_FOPEN_NOFLUSH | direct,
            backing: backing.rawValue)
    }
}

extension CUbiquity_CreateReply {
    init(_ attributes: NodeAttributes, _ numbers: NodeNumbers, _ open: CUbiquity_OpenReply) {
        let status = attributes.status
        self.init(
            node: numbers.number(attributes.ino), generation: 0, entrySeconds: UInt64(KernelTimes.entry),
            attributeSeconds: UInt64(attributes.attributeTime), entryNanoseconds: 0, attributeNanoseconds: 0,
            inode: attributes.ino, size: UInt64(attributes.size), blocks: UInt64(attributes.blocks),
            accessed: UInt64(bitPattern: Int64(status.st_atim.tv_sec)),
            modified: UInt64(bitPattern: Int64(status.st_mtim.tv_sec)),
            changed: UInt64(bitPattern: Int64(status.st_ctim.tv_sec)),
            accessedNanoseconds: UInt32(status.st_atim.tv_nsec), modifiedNanoseconds: UInt32(status.st_mtim.tv_nsec),
            changedNanoseconds: UInt32(status.st_ctim.tv_nsec), mode: attributes.mode, links: attributes.links,
            user: attributes.uid, group: attributes.gid, device: 0, blockSize: UInt32(status.st_blksize),
            attributeFlags: 0, open: open)
    }
}

extension UnsafeRawPointer {
    var chars: UnsafePointer<CChar> { assumingMemoryBound(to: CChar.self) }
}
