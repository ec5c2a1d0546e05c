internal import UbiquityCore
internal import UbiquitySystem

/// The contents that a device's user has closed, and so may not be lost: each must be found at the cloud in the end, as a
/// current, an older or a conflict version, unless the same user replaced or removed it.
///
/// What the cloud has acknowledged is not counted here but at the link: it must be found whatever users do.
package final class Ledger: Sendable {
    struct Entry {
        var fingerprint: ChunkID
        /// Whether it was synced, and so must survive power loss.
        var isSynced: Bool
    }

    private let entries = Lock<[ContentID: Entry]>([:])

    package init() {}

    /// What is in this backing file is about to be replaced or removed: who asks for that accepts either.
    func take(_ content: ContentID?) -> [ContentID: Entry] {
        guard let content else { return [:] }
        return entries.withLock { entries in
            entries.removeValue(forKey: content).map { [content: $0] } ?? [:]
        }
    }

    /// It was not done: all is as it was.
    func putBack(_ taken: [ContentID: Entry]) { entries.withLock { $0.merge(taken) { present, _ in present } } }

    /// The user has closed, or synced, a file with this content.
    func note(_ content: ContentID, _ entry: Entry) { entries.withLock { $0[content] = entry } }

    /// What was not synced may be gone.
    func losePower() { entries.withLock { entries in entries = entries.filter(\.value.isSynced) } }

    /// Every content that must be at the cloud when all is settled.
    /// - Parameter stays: whether a content is one that is to stay on its device.
    func required(unless stays: (ContentID) throws -> Bool) rethrows -> Set<ChunkID> {
        Set(try entries.withLock { $0 }.filter { try !stays($0.key) }.map(\.value.fingerprint))
    }
}
