package import UbiquityCore

/// One committed change of the local tree.
package struct IndexEvent: Sendable {
    package enum Origin: Sendable {
        /// A program's doing, through the mount.
        case local
        /// The cloud's, or the sync engine's.
        case remote
        /// Recovery when the index is opened.
        case startup
    }

    package enum Kind: Sendable {
        case added
        /// The entry is gone (deleted, or displaced).
        case removed
        case moved
        /// Mode, times, owner, attributes or flags.
        case attributes
        /// The content changed in place, was downloaded, or was evicted: same inode.
        case content
        /// A remote update or a rename-over put another content, with another inode, in the place of the old.
        case replaced
        /// It has gained, lost or been freed of a version beside the current one.
        case versions
    }

    /// What of an item's versions is other, as far as its record says.
    package enum VersionsChange: Hashable, Sendable {
        /// Conflicts: which, the index says.
        case conflicts
        /// An earlier one: what was current.
        case gained(VersionID)
        /// One that was no conflict; nil if it is not known which.
        case lost(VersionID?)
    }

    package var origin: Origin
    package var kind: Kind
    /// Before; nil if it was not there.
    package var before: ItemRow?
    /// After; nil if it is gone.
    package var after: ItemRow?
    /// Of `.versions`: which are other.
    package var versionsChange: VersionsChange?

    /// Whether something has come to a name in the top folder, or gone from one.
    var changesTopFolder: Bool {
        let (old, new) = (before?.entry, after?.entry)
        return old != new && (old?.parent == .root || new?.parent == .root)
    }
}
