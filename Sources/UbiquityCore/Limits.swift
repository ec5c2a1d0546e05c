/// Limits that both sides of an interface must agree on. A limit used by one module only is defined there.
package enum Limits {
    /// Bytes in a name (NAME_MAX of Linux file systems).
    package static let maximumNameLength = 255
    /// Bytes in a symlink's text (PATH_MAX less the zero byte).
    package static let maximumLinkLength = 4095
    /// Maximum names of one item (as on ext4).
    package static let maximumLinks: UInt32 = 65_000
    /// Bytes of names and values together of one item's extended attributes.
    package static let maximumXattrBytes = 65_536
    /// Bytes of an item's attribute names that a program may set, with a zero after each. Linux lists at most 65,536,
    /// and the list also has the status attributes.
    package static let maximumXattrNames = 64_000
    /// Bytes in a file: 2^43 = 8 TiB. Such a file can be kept on a device; uploads are limited by
    /// `maximumChunksPerContent`.
    package static let maximumFileSize: Int64 = 1 << 43
    /// Chunks of an uploaded content, about 170 GiB. A manifest has 40 bytes a chunk and is sent in one commit of at
    /// most `maximumMessageLength`; the rest is for the other changes of a group.
    package static let maximumChunksPerContent = 700_000

    /// FastCDC: only a content's last chunk may be shorter, and none is longer. A content no longer than the minimum is
    /// one chunk (64 KiB, 256 KiB, 1 MiB).
    package static let minimumChunkLength = 64 * 1024
    package static let averageChunkLength = 256 * 1024
    package static let maximumChunkLength = 1024 * 1024

    /// Changes in one commit.
    package static let maximumChangesPerCommit = 2000
    /// Packages affected by one commit: the changed one, and others whose names it takes.
    package static let maximumPackagesPerCommit = 100
    /// Bytes of chunks sent inside a commit.
    package static let maximumInlineChunkBytes = 4 * 1024 * 1024
    /// Chunk ids in one have/want question or one batched download.
    package static let maximumChunksPerRequest = 4096
    /// Bytes of chunks in one upload or one batched download: 16 chunks of the largest size.
    package static let maximumChunkBytesPerRequest = 16 * 1024 * 1024
    /// Chunks in one request to verify the cloud's copies. The cloud reads all of them before it answers, 32 MiB on
    /// average.
    package static let maximumChunksToVerify = 128
    /// Bytes of items after which a page of the feed, a listing or the trash ends (4 MiB), whatever number was
    /// requested.
    package static let maximumPageBytes = 4 << 20
    /// Items in one page of the change feed.
    package static let maximumItemsPerPage = 2000
    /// A content with at most this many chunks has its manifest in the item's record, so that its download needs one
    /// round trip. 4 chunks are on average 1 MiB.
    package static let inlineManifestChunks = 4
    /// Conflict versions in an item's record; the others must be requested.
    package static let maximumConflictsInRecord = 64
    /// Versions in one answer to a request for an item's versions: the conflicts, then the newest others.
    package static let maximumVersionsPerAnswer = 1000
    /// Decisions about versions in one change.
    package static let maximumVersionActions = 1000
    /// Deleted items in one page of the trash.
    package static let maximumTrashPage = 1000
    /// Bytes of an encoded request other than chunks. 2000 changes with names of 255 bytes and small attributes need
    /// about 1 MiB; the rest is for inline chunks and large attributes.
    package static let maximumMessageLength = 32 * 1024 * 1024
    /// Levels of directories; deeper ones are refused (ELOOP in the cloud's parent walk, a guard against damage).
    package static let maximumDepth = 1000
}
