package import UbiquityCore
internal import UbiquitySystem

/// A content that replaced another one and may not be synced to disk yet.
///
/// The kernel may write the index to disk before the new content. After a power loss the name must have the old or the
/// new content. So the old file stays until the index, and everything replaced with it, is synced
/// (`ContentStore.removeRetired`). A start in another boot can then restore it.
package struct ReplacedContent: Sendable, Hashable {
    /// The new content.
    package var content: ContentID
    /// Bytes of the new content at the replacement.
    package var newSize: Int64
    /// The base version of the item that has the new content. If the item has another base by now, the cloud has a
    /// later content than the old one.
    package var version: VersionID?
    /// The replaced content; nil if it was not here. Another name may still have it.
    package var old: ContentID?
    /// Bytes of the replaced content.
    package var size: Int64
    package var modifiedAt: Timestamp
    /// The version that the replaced content is, or started from.
    package var base: VersionID?
    /// The chunks of the replaced content, if it was an unchanged version of the cloud.
    package var manifest: Manifest?
}

/// The replacements recorded by this process, which save needless queries.
final class ReplacedContents: Sendable {
    private let recorded = Lock(Set<ContentID>())

    func insert(_ content: ContentID) { recorded.withLock { _ = $0.insert(content) } }
    func contains(_ content: ContentID) -> Bool { recorded.withLock { $0.contains(content) } }
    func remove(_ contents: Set<ContentID>) { recorded.withLock { $0.subtract(contents) } }
    var all: Set<ContentID> { recorded.withLock { $0 } }
}
