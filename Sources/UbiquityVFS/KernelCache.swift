package import UbiquityCore

/// What the kernel remembers of the mount and has to forget when something other than the mount itself changes it.
///
/// Answered by the session with the kernel. The calls only queue the news, in order; they return at once and may be
/// made under locks. They are made after the change is committed, so no news is lost to an answer on its way:
///
/// - An entry: the kernel holds the directory's lock during a lookup or readdir until its answer is in the cache, and
///   waits for that lock before it drops an entry.
/// - Attributes: the kernel numbers its requests, and drops an answer whose request is older than the invalidation.
/// - A listing: it may be put together from an answer given before the change. The kernel holds the directory's lock
///   until that is in its cache; so who brings the news has it take that lock first, and then drop what is there.
///
/// There is no news about a file's pages: a remote update of content that is here gets another inode, and pages that
/// are left from before an eviction are dropped at the next open (`InodeTable.Node.pages`). So this never waits
/// for a page that waits for a download.
package protocol KernelCache: Sendable {
    /// The entry may be gone, new (the kernel remembers that there was none) or another item.
    func invalidateEntry(parent: UInt64, name: ItemName)

    /// Size, times, mode, attributes, link text.
    func invalidateAttributes(ino: UInt64)

    /// A directory's listing and its attributes.
    func invalidateListing(directory: UInt64)

    /// Whether there is news that the kernel was not told yet.
    var hasNews: Bool { get }
}

extension KernelCache {
    /// For what is told at once, or to nobody.
    package var hasNews: Bool { false }
}

/// For a file system without a kernel.
package struct NoKernelCache: KernelCache {
    package init() {}
    package func invalidateEntry(parent: UInt64, name: ItemName) {}
    package func invalidateAttributes(ino: UInt64) {}
    package func invalidateListing(directory: UInt64) {}
}
