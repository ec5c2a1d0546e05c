/// Every bound that both sides of a seam must agree on. A bound that only one module needs stands in that module.
package enum Limits {
    /// Bytes in a name (NAME_MAX of Linux file systems).
    package static let maximumNameLength = 255
    /// Bytes in a symlink's text (PATH_MAX less the zero byte).
    package static let maximumLinkLength = 4095
    /// Names that one item has at most (as on ext4).
    package static let maximumLinks: UInt32 = 65_000
    /// Bytes of names and values together of one item's extended attributes.
    package static let maximumXattrBytes = 65_536
    /// Bytes of the names of an item's attributes, with a zero after each, that a program may make them: Linux lists
    /// 65,536, and the attributes of the status stand in the list too.
    package static let maximumXattrNames = 64_000
    /// Bytes in a file: 2^43 = 8 TiB. Such a file can be kept on a device; what travels has `maximumChunksPerContent`.
    package static let maximumFileSize: Int64 = 1 << 43
    /// Chunks of a content that travels, about 170 GiB: a manifest has 40 bytes a chunk and goes in one commit, whose
    /// length is `maximumMessageLength`; the rest is for the other changes of a group.
    package static let maximumChunksPerContent = 700_000

    /// FastCDC: no chunk but a content's last is shorter, none is longer; a content no longer than the minimum is one
    /// chunk (`design.md` section 5: 64 KiB, 256 KiB, 1 MiB).
    package static let minimumChunkLength = 64 * 1024
    package static let averageChunkLength = 256 * 1024
    package static let maximumChunkLength = 1024 * 1024

    /// Changes in one commit.
    package static let maximumChangesPerCommit = 2000
    /// Packages that one commit is about: the one that was changed, and others whose names it takes.
    package static let maximumPackagesPerCommit = 100
    /// Bytes of chunks that travel inside a commit.
    package static let maximumInlineChunkBytes = 4 * 1024 * 1024
    /// Chunk ids in one have/want question or one batched download.
    package static let maximumChunksPerRequest = 4096
    /// Bytes of chunks in one upload or one batched download: 16 chunks of the largest size.
    package static let maximumChunkBytesPerRequest = 16 * 1024 * 1024
    /// Chunks in one question whether the cloud's copies are sound: the cloud reads all of them before it answers,
    /// 32 MiB on average.
    package static let maximumChunksToVerify = 128
    /// Bytes of items with which a page of the feed, a listing or the trash ends (4 MiB), whatever number was asked
    /// for.
    package static let maximumPageBytes = 4 << 20
    /// Items in one page of the change feed.
    package static let maximumItemsPerPage = 2000
    /// A content of no more chunks carries its manifest in the item's record, so that its download needs one round
    /// trip; 4 chunks are on average 1 MiB.
    package static let inlineManifestChunks = 4
    /// Conflict versions that stand in an item's record; the others are asked for.
    package static let maximumConflictsInRecord = 64
    /// Versions in one answer to the question about an item's versions: the conflicts, then the newest others.
    package static let maximumVersionsPerAnswer = 1000
    /// Decisions about versions in one change.
    package static let maximumVersionActions = 1000
    /// Deleted items in one page of the trash.
    package static let maximumTrashPage = 1000
    /// Length of an encoded request that is not chunks (bytes). 2000 changes with names of 255 bytes and small
    /// attributes need about 1 MiB; the rest is for inline chunks and large attributes.
    package static let maximumMessageLength = 32 * 1024 * 1024
    /// Levels of directories; deeper is refused (ELOOP for the cloud's parent walk, a guard against damage).
    package static let maximumDepth = 1000
}
