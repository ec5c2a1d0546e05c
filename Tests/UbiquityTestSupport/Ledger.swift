internal import UbiquityCore
internal import UbiquitySystem

/// The contents that a device's user has closed, and that may not be lost. Each must be at the cloud in the end, as a
/// current, an older or a conflict version, unless the same user replaced or removed it.
///
/// Contents that the cloud has acknowledged are recorded at the link instead: they must stay, whatever users do.
package final class Ledger: Sendable {
    struct Entry {
        var fingerprint: ChunkID
        /// Whether it was synced, and so must survive power loss.
        var isSynced: Bool
    }

    private let entries = Lock<[ContentID: Entry]>([:])

    package init() {}

    /// The content of this backing file is about to be replaced or removed: either result is correct.
    func take(_ content: ContentID?) -> [ContentID: Entry] {
        guard let content else { return [:] }
        return entries.withLock { entries in
            entries.removeValue(forKey: content).map { [content: $0] } ?? [:]
        }
    }

    /// The replacement failed: the entries count again.
    func putBack(_ taken: [ContentID: Entry]) { entries.withLock { $0.merge(taken) { present, _ in present } } }

    /// The user has closed, or synced, a file with this content.
    func note(_ content: ContentID, _ entry: Entry) { entries.withLock { $0[content] = entry } }

    /// Unsynced contents may be lost.
    func losePower() { entries.withLock { entries in entries = entries.filter(\.value.isSynced) } }

    /// Every content that must be at the cloud when all devices are idle.
    /// - Parameter stays: whether a content is one that stays on its device.
    func required(unless stays: (ContentID) throws -> Bool) rethrows -> Set<ChunkID> {
        Set(try entries.withLock { $0 }.filter { try !stays($0.key) }.map(\.value.fingerprint))
    }
}
