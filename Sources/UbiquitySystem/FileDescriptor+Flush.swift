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

    /// linux/magic.h: EXT4_SUPER_MAGIC, which all three have.
    private static let extendedFileSystem: Int64 = 0xef53
}
