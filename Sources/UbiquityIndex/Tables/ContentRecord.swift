package import UbiquityCore
internal import UbiquitySystem

/// The index's record of a backing file, independent of the item that has it.
package struct ContentRecord: Sendable, Hashable {
    package var content: ContentID
    /// The version whose bytes the file holds, or will hold while it is partial.
    package var version: VersionID
    package var size: Int64
    package var manifest: Manifest
    /// The boot during which the file was written, if it has not been synced since. After another boot its bytes must
    /// be verified before use.
    package var unsyncedBoot: [UInt8]?

    package init(content: ContentID, version: VersionID, size: Int64, manifest: Manifest, unsyncedBoot: [UInt8]?) {
        self.content = content
        self.version = version
        self.size = size
        self.manifest = manifest
        self.unsyncedBoot = unsyncedBoot
    }
}

/// A possible place of a chunk on this device. It is a hint: bytes read there must be verified.
package struct ChunkLocation: Sendable, Hashable {
    package var content: ContentID
    package var position: Int64
    package var length: Int
}

/// Contents ordered by id. For one entry per file it is built in a third of a set's time and takes half the space.
package struct ContentList: Sendable {
    package let ids: [ContentID]

    init(ascending ids: [ContentID]) { self.ids = ids }

    package func contains(_ id: ContentID) -> Bool {
        var low = 0, high = ids.count
        while low < high {
            let middle = (low + high) / 2
            if ids[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low < ids.count && ids[low] == id
    }
}

/// Tells which contents cannot have a record: those newer than the newest recorded one. While nothing is uploaded, most
/// contents that programs write are replaced or removed before they get a record.
struct RecordedContents {
    private var newest: ContentID

    /// - Parameter newest: The newest content that an earlier run of the index can have allocated.
    init(newest: ContentID) { self.newest = newest }

    func mayHave(_ content: ContentID) -> Bool { content <= newest }

    mutating func note(_ content: ContentID) { newest = max(newest, content) }
}

/// The first eight bytes of a chunk's id as an integer: enough to find it, and half the space in the index.
enum ChunkPrefix {
    static func of(_ id: ChunkID) -> Int64 {
        id.bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}
