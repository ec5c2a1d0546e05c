package import UbiquityCore

/// Invalidates the kernel's cache of the mount after changes that did not come through the mount.
///
/// Implemented by the session with the kernel. The calls only enqueue the invalidation, in order. They return at once
/// and may be made under locks. They are made after the change is committed, so an answer on its way cannot overtake an
/// invalidation:
///
/// - An entry: during a lookup or readdir the kernel holds the directory's lock until its answer is in the cache. It
///   waits for that lock before it drops an entry.
/// - Attributes: the kernel numbers its requests, and drops an answer whose request is older than the invalidation.
/// - A listing: the kernel may build it from an answer given before the change. It holds the directory's lock until the
///   listing is in its cache. So the notifier makes it take that lock first, and then drop the listing.
///
/// A file's pages need no invalidation. A remote update of a downloaded content gets another inode, and pages left from
/// before an eviction are dropped at the next open (`InodeTable.Node.pages`). So an invalidation never waits for a page
/// that waits for a download.
package protocol KernelCache: Sendable {
    /// Invalidates a name: its item may be gone, new (the kernel cached its absence) or replaced by another.
    func invalidateEntry(parent: UInt64, name: ItemName)

    /// Invalidates size, times, mode, attributes and link text.
    func invalidateAttributes(ino: UInt64)

    /// Invalidates a directory's listing and its attributes.
    func invalidateListing(directory: UInt64)

    /// Whether invalidations are queued that the kernel has not received.
    var hasNews: Bool { get }
}

extension KernelCache {
    /// Default for implementations that invalidate at once or never.
    package var hasNews: Bool { false }
}

/// For a file system without a kernel.
package struct NoKernelCache: KernelCache {
    package init() {}
    package func invalidateEntry(parent: UInt64, name: ItemName) {}
    package func invalidateAttributes(ino: UInt64) {}
    package func invalidateListing(directory: UInt64) {}
}
