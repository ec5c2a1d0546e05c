internal import UbiquityCore
internal import UbiquitySystem

/// Contents that the index on disk may still consider the cloud's, although the running index knows better.
///
/// Writing such a content in place would be dangerous: after a power loss the old index may have survived with the new
/// bytes, and nobody would verify them. So the index is synced to disk before the first byte is written.
struct OutdatedTrust {
    /// Maximum contents remembered. Beyond that, all contents count until the index is synced again.
    static let maximum = 4096

    private var stamps: [ContentID: UInt64] = [:]
    /// All contents with smaller ids count, since the given stamp.
    private var all: (below: ContentID, since: UInt64)?
    /// The stamp of the last content added.
    private(set) var last: UInt64 = 0

    /// - Parameter first: The first id of this opening of the index. Contents of the process before may be affected.
    init(first: ContentID) { all = (first, 0) }

    func contains(_ content: ContentID) -> Bool {
        all.map { content < $0.below } == true || stamps[content] != nil
    }

    mutating func insert(_ content: ContentID) {
        last += 1
        if stamps.count < Self.maximum {
            stamps[content] = last
        } else {
            stamps = [:]
            all = (ContentID(.max), last)
        }
    }

    /// Drops the contents up to a stamp: the index on disk knows about them.
    mutating func forget(through stamp: UInt64) {
        if let all, all.since <= stamp { self.all = nil }
        stamps = stamp == last ? [:] : stamps.filter { $0.value > stamp }
    }
}
