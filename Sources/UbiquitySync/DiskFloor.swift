internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex

/// The space on the disk that contents leave free for everything else.
///
/// Contents that come by themselves stop at the floor that the mount was given. Three kinds pass it, down to the
/// reserve of 32 MiB that downloads never touch: content that somebody asked for, ignore files (without them other
/// files would be uploaded by mistake), and small files.
package struct DiskFloor: Sendable, Hashable {
    /// The value of --disk-floor, in bytes.
    package let configured: Int64

    /// Files of at most that many bytes come regardless of the floor.
    static let smallFile: Int64 = 64 << 10
    /// The floor of contents that pass the configured one.
    static let reserve = PartialContent.reservedSpace
    /// The floor leaves a requested content here so long after its last use, in seconds.
    static let requestedStay: Double = 24 * 3600

    /// The floor of contents that come by themselves.
    package var usual: Int64 { max(configured, Self.reserve) }

    /// The floor of one content.
    /// - Parameter size: Bytes of the whole content that is to come.
    func bytes(for row: ItemRow, size: Int64) -> Int64 {
        let isRequested = row.flags.contains(.downloadRequested)
        let passes = isRequested || size <= Self.smallFile || row.entry?.name == IgnoreRules.fileName
        return passes ? Self.reserve : usual
    }

    /// The error for a content that does not fit. It names the floor, and the option if that is what stops the content.
    func refusal(of size: Int64, free: Int64, floor: Int64) -> UbiquityError {
        let found = "the disk has no room for \(ByteSize.text(size)) of content: "
            + "\(ByteSize.text(max(0, free))) are free"
        guard floor > Self.reserve else {
            return UbiquityError(
                .noSpace, "\(found), and the daemon keeps \(ByteSize.text(floor)) free",
                remedy: "evict or delete something, or make room on the disk")
        }
        return UbiquityError(
            .noSpace, "\(found), and --disk-floor keeps \(ByteSize.text(floor)) free",
            remedy: "'ubiquity download' brings it all the same; or evict or unpin something, or mount with a smaller "
                + "--disk-floor")
    }
}

/// The room for contents on the disk at one moment.
struct DiskRoom: Sendable, Hashable {
    let floor: DiskFloor
    /// Bytes that this user can write.
    let free: Int64
    /// Bytes of contents that make way for others, above the floor and above the reserve.
    let evictable: Int64
    let evictableForReserve: Int64

    /// Whether a whole content has room, or can be given it.
    /// - Parameter others: Bytes that are to come before it.
    func fits(_ row: ItemRow, size: Int64, after others: Int64 = 0) -> Bool {
        let floor = floor.bytes(for: row, size: size)
        let freed = floor > DiskFloor.reserve ? evictable : evictableForReserve
        return size + others <= free - floor + freed
    }
}
