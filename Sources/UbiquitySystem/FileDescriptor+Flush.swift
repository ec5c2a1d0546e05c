// One flush for several files.
extension FileDescriptor {
    /// Returns the file system's device if a sync of any file there flushes the disk's whole cache, regardless of that
    /// file's own data; nil if that is not known.
    ///
    /// Data that `finishWriting` sent there before, for another file, is then durable, provided it only overwrote bytes
    /// already on disk, so that no metadata changed. (ext2, ext3 and ext4: `fsync` ends with a flush, or with a commit
    /// of their journal that begins with one, and in `data=journal` commits everything. Not examined: a journal on a
    /// separate device.)
    package func sharedFlushes() throws(Errno) -> UInt64? {
        guard try fileSystemKind() == Self.extendedFileSystem else { return nil }
        return try status().device
    }

    /// Returns whether the file is on an ext3 or ext4 with a journal, so that a new file's first sync costs a journal
    /// commit; false if that is not known. It looks up the device's name in `/sys/dev/block`; `/proc/fs/jbd2` lists it
    /// if it has a journal.
    package func commitsNewFiles() throws(Errno) -> Bool {
        guard try fileSystemKind() == Self.extendedFileSystem else { return false }
        let device = try status().device
        let major = (device >> 8 & 0xfff) | (device >> 32 & ~0xfff), minor = (device & 0xff) | (device >> 12 & ~0xff)
        do throws(Errno) {
            let link = String(decoding: try FileSystem.readLink("/sys/dev/block/\(major):\(minor)"), as: UTF8.self)
            // A name with a slash, as some RAIDs have, is written with another character there.
            let name = Path.name(of: link)
            return try FileSystem.entries(of: "/proc/fs/jbd2").contains { $0.text.hasPrefix(name + "-") }
        } catch .ENOENT { return false }
    }

    /// linux/magic.h: EXT4_SUPER_MAGIC, which all three have.
    private static let extendedFileSystem: Int64 = 0xef53
}
