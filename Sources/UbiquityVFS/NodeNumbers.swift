package import UbiquityCore

/// The kernel's numbers of the inodes of one container.
///
/// A mount may serve several containers one after the other, as the account of the device changes. Each has a
/// generation, which the upper bits of its numbers contain. So a late request for an inode of a former container is
/// recognized, and never reaches an item of the present one. The top folder is number 1 in every generation.
package struct NodeNumbers: Hashable, Sendable {
    /// Numbers of items and versions take the bits below (`ItemIndex.versionNumberBit`).
    private static let shift: UInt64 = 52
    /// Containers that one mount can serve before numbers repeat. By then the kernel has forgotten the first ones.
    private static let limit: UInt64 = 1 << 11

    package let generation: UInt64

    /// The numbers of a mount's first container: those of the index.
    package static let first = NodeNumbers(generation: 0)

    private init(generation: UInt64) { self.generation = generation }

    /// The numbers of the next container.
    package var next: NodeNumbers { NodeNumbers(generation: (generation + 1) % Self.limit) }

    /// The kernel's number of an inode. 0 stands for no inode.
    @inline(__always)
    package func number(_ ino: UInt64) -> UInt64 { ino <= 1 ? ino : ino | generation << Self.shift }

    /// The inode with that number; nil if it belongs to another container.
    @inline(__always)
    package func ino(_ number: UInt64) -> UInt64? {
        if number <= 1 { return number }
        return number >> Self.shift == generation ? number & ((1 << Self.shift) - 1) : nil
    }

    /// The same for any container: the inode within the one it belongs to.
    package static func split(_ number: UInt64) -> (generation: UInt64, ino: UInt64) {
        (number >> shift, number & ((1 << shift) - 1))
    }
}

/// Translates the inodes of a container that is not the first of its mount.
package struct NumberedKernelCache: KernelCache {
    private let base: any KernelCache
    private let numbers: NodeNumbers

    package init(_ base: any KernelCache, _ numbers: NodeNumbers) {
        self.base = base
        self.numbers = numbers
    }

    package func invalidateEntry(parent: UInt64, name: ItemName) {
        base.invalidateEntry(parent: numbers.number(parent), name: name)
    }
    package func invalidateAttributes(ino: UInt64) { base.invalidateAttributes(ino: numbers.number(ino)) }
    package func invalidateListing(directory: UInt64) {
        base.invalidateListing(directory: numbers.number(directory))
    }
    package var hasNews: Bool { base.hasNews }
}
