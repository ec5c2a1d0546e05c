internal import Synchronization
internal import UbiquityCore
internal import UbiquitySystem

/// The contents of a versions folder when a reader began.
package struct VersionsListing: Sendable {
    struct Entry: Sendable {
        let name: ItemName
        let node: VersionNodes.Node
        let kind: ItemKind
    }

    let ino: UInt64
    fileprivate let number: Int64
    let entries: [Entry]

    /// An offset is the listing's number and, in the lower 32 bits, the position in it.
    func offset(after place: Int) -> Int64 { number << 32 | Int64(place + 1) }
    static func place(of offset: Int64) -> Int { Int(max(0, offset) & 0xffff_ffff) }
    fileprivate static func number(of offset: Int64) -> Int64 { offset >> 32 }
}

/// The most recent listings of versions folders. A forgotten listing is made anew, and reading continues at the same
/// position in it.
///
/// Lock order: a leaf.
final class VersionListings: Sendable {
    /// With more readers at one time, a reader may see an entry twice or not at all if versions change meanwhile.
    static let capacity = 64
    /// Limit for the entries of all listings; the last listing is kept whatever its size.
    static let maximumEntries = 16_384

    private let listings = Lock<[VersionsListing]>([])
    private let last = Atomic<Int64>(0)
    private let stamps = Atomic<Int64>(0)

    func add(_ ino: UInt64, _ entries: [VersionsListing.Entry]) -> VersionsListing {
        let number = last.wrappingAdd(1, ordering: .relaxed).newValue & 0x3fff_ffff
        let listing = VersionsListing(ino: ino, number: number, entries: entries)
        listings.withLock { listings in
            listings.append(listing)
            var total = listings.reduce(0) { $0 + $1.entries.count }
            while listings.count > Self.capacity || total > Self.maximumEntries && listings.count > 1 {
                total -= listings.removeFirst().entries.count
            }
        }
        return listing
    }

    func listing(of ino: UInt64, at offset: Int64) -> VersionsListing? {
        listings.withLock { $0.last { $0.number == VersionsListing.number(of: offset) && $0.ino == ino } }
    }

    /// The time with a different fraction of a second at each call. The kernel drops its cached listing when the
    /// folder's time has changed, and so asks each time.
    func stamped(_ time: Timestamp) -> Timestamp {
        Timestamp(
            seconds: time.seconds, nanoseconds: stamps.wrappingAdd(1, ordering: .relaxed).newValue % 1_000_000_000)
    }
}
