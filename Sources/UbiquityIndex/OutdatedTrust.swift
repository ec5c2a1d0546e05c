package import UbiquityCore
internal import UbiquitySystem

/// Contents that the index on the disk may take for the cloud's, though the index that runs knows better.
///
/// Written in place, such a content would be a danger: after a power loss the old index may have survived together with
/// the new bytes, and nobody would look at them. So before the first byte the index is brought to the disk.
struct OutdatedTrust {
    /// Contents that are remembered. Beyond, all count as such until the index is next on the disk.
    static let maximum = 4096

    private var stamps: [ContentID: UInt64] = [:]
    /// Those with smaller ids count all, since then.
    private var all: (below: ContentID, since: UInt64)?
    /// Of what was taken in last.
    private(set) var last: UInt64 = 0

    /// - Parameter first: the first id of this opening of the index: the process before may have died with some.
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

    /// An index is on the disk that knows of everything up to then.
    mutating func forget(through stamp: UInt64) {
        if let all, all.since <= stamp { self.all = nil }
        stamps = stamp == last ? [:] : stamps.filter { $0.value > stamp }
    }
}

extension ItemIndex {
    /// Makes sure that after a power loss the content is not taken for the cloud's: to be called before the first byte
    /// is written into it in place.
    package func distrust(_ content: ContentID) throws {
        if trust.withLock({ $0.contains(content) }) { try makeDurable() }
    }
}

extension IndexTransaction {
    /// Takes note of a row that was as the cloud has it and is not any more.
    func noteTrust(_ before: ItemRow, after: ItemRow?) {
        guard let content = before.content, before.isAsTheCloudHasIt else { return }
        if let after, after.content == content, after.isAsTheCloudHasIt { return }
        index.trust.withLock { $0.insert(content) }
    }
}

extension ItemRow {
    /// Whether a start would take its content for the version's without a look at it.
    fileprivate var isAsTheCloudHasIt: Bool {
        contentState == .complete && version != nil && !dirty.contains(.content) && !isWriting && !isExcluded
    }
}
