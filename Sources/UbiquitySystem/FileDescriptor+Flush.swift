// One flush for several files.
extension FileDescriptor {
    /// The device of a file system on which a sync of any file flushes the disk's memory as a whole, whatever that file
    /// has to write itself; nil where that is not known.
    ///
    /// What `finishWriting` has sent there of another file before is durable then, if only bytes were written over that
    /// had been on the disk before, so that nothing but these bytes has to be there. (ext2, ext3 and ext4: `fsync` ends
    /// with a flush, or with a commit of their journal that begins with one, and in `data=journal` commits all. Not
    /// looked into: a journal on a device of its own.)
    package func sharedFlushes() throws(Errno) -> UInt64? {
        guard try fileSystemKind() == Self.extendedFileSystem else { return nil }
        return try status().device
    }

    /// Whether it is on an ext3 or ext4 that has a journal, so that a new file costs a commit of that with its first
    /// sync; false where that is not known. (By the device's name in `/sys/dev/block`, which `/proc/fs/jbd2` has if its
    /// journal is one.)
    package func commitsNewFiles() throws(Errno) -> Bool {
        guard try fileSystemKind() == Self.extendedFileSystem else { return false }
        let device = try status().device
        let major = (device >> 8 & 0xfff) | (device >> 32 & ~0xfff), minor = (device & 0xff) | (device >> 12 & ~0xff)
        do throws(Errno) {
            let link = String(decoding: try FileSystem.readLink("/sys/dev/block/\(major):\(minor)"), as: UTF8.self)
            // A name with a slash, as of some RAIDs, has another sign for it there.
            let name = Path.name(of: link)
            return try FileSystem.entries(of: "/proc/fs/jbd2").contains { $0.text.hasPrefix(name + "-") }
        } catch .ENOENT { return false }
    }

    /// linux/magic.h: EXT4_SUPER_MAGIC, which all three have.
    private static let extendedFileSystem: Int64 = 0xef53
}
