internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex

/// The disk space that contents leave free for everything else.
///
/// Background downloads stop at the floor that the mount was given. Three kinds may go below it, down to the reserve of
/// 32 MiB that downloads never use: requested contents, ignore files (without them other files would be uploaded by
/// mistake), and small files.
package struct DiskFloor: Sendable, Hashable {
    /// The value of --disk-floor, in bytes.
    package let configured: Int64

    /// Files up to this size, in bytes, are downloaded regardless of the floor.
    static let smallFile: Int64 = 64 << 10
    /// The floor of contents that may go below the configured one.
    static let reserve = PartialContent.reservedSpace
    /// How long a requested content is kept after its last use when the floor needs space, in seconds.
    static let requestedStay: Double = 24 * 3600

    /// The floor of background downloads.
    package var usual: Int64 { max(configured, Self.reserve) }

    /// The floor of one content.
    /// - Parameter size: bytes of the whole content to be downloaded.
    func bytes(for row: ItemRow, size: Int64) -> Int64 {
        let isRequested = row.flags.contains(.downloadRequested)
        let passes = isRequested || size <= Self.smallFile || row.entry?.name == IgnoreRules.fileName
        return passes ? Self.reserve : usual
    }

    /// The error for a content that does not fit. It names the floor, and the option if that is the cause.
    func refusal(of size: Int64, free: Int64, floor: Int64) -> UbiquityError {
        let found = "the content needs \(ByteSize.text(size)) on the disk: "
            + "\(ByteSize.text(max(0, free))) are free"
        guard floor > Self.reserve else {
            return UbiquityError(
                .noSpace, "\(found), and the daemon keeps \(ByteSize.text(floor)) free",
                remedy: "evict or delete files, or free space on the disk")
        }
        return UbiquityError(
            .noSpace, "\(found), and --disk-floor keeps \(ByteSize.text(floor)) free",
            remedy: "'ubiquity download' ignores the floor; or evict or unpin files, or mount with a smaller "
                + "--disk-floor")
    }
}

/// The disk space for contents at one moment.
struct DiskSpace: Sendable, Hashable {
    let floor: DiskFloor
    /// Bytes that this user can write.
    let free: Int64
    /// Bytes of contents that can be evicted to restore the floor and, below, the reserve.
    let evictable: Int64
    let evictableForReserve: Int64

    /// Whether a whole content fits, after evictions if necessary.
    /// - Parameter others: bytes to be downloaded before it.
    func fits(_ row: ItemRow, size: Int64, after others: Int64 = 0) -> Bool {
        let floor = floor.bytes(for: row, size: size)
        let freed = floor > DiskFloor.reserve ? evictable : evictableForReserve
        return size + others <= free - floor + freed
    }
}
