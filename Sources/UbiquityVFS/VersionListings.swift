internal import Synchronization
internal import UbiquityCore
internal import UbiquitySystem

/// What stood in a versions folder when somebody began to read it.
package struct VersionsListing: Sendable {
    struct Entry: Sendable {
        let name: ItemName
        let node: VersionNodes.Node
        let kind: ItemKind
    }

    let ino: UInt64
    fileprivate let number: Int64
    let entries: [Entry]

    /// An offset is the listing's number and, in the lower 32 bits, the place in it.
    func offset(after place: Int) -> Int64 { number << 32 | Int64(place + 1) }
    static func place(of offset: Int64) -> Int { Int(max(0, offset) & 0xffff_ffff) }
    fileprivate static func number(of offset: Int64) -> Int64 { offset >> 32 }
}

/// The listings of versions folders that were begun last. One that is not known any more is made anew, and reading goes
/// on at the same place in it.
///
/// Lock order: a leaf.
final class VersionListings: Sendable {
    /// More readers at one time than that may see an entry twice or not at all, if versions come and go meanwhile.
    static let capacity = 64
    /// Entries of all of them; the last one is kept whatever it has.
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

    /// The time with another fraction of the second each time: the kernel takes a listing that it has for old if the
    /// folder's time is another than before, and is to ask each time.
    func stamped(_ time: Timestamp) -> Timestamp {
        Timestamp(
            seconds: time.seconds, nanoseconds: stamps.wrappingAdd(1, ordering: .relaxed).newValue % 1_000_000_000)
    }
}
