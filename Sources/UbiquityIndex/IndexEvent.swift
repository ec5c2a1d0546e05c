package import UbiquityCore

/// One committed change of the local tree.
package struct IndexEvent: Sendable {
    package enum Origin: Sendable {
        /// A change by a program, through the mount.
        case local
        /// A change by the cloud or the sync engine.
        case remote
        /// A change by recovery when the index is opened.
        case startup
    }

    package enum Kind: Sendable {
        case added
        /// The entry was removed (deleted, or displaced).
        case removed
        case moved
        /// Mode, times, owner, attributes or flags changed.
        case attributes
        /// The content changed in place, was downloaded, or was evicted: same inode.
        case content
        /// A remote update or a rename over the item replaced the content, with another inode.
        case replaced
        /// The item gained, lost or resolved a version besides the current one.
        case versions
    }

    /// The change of an item's versions, as far as its record tells.
    package enum VersionsChange: Hashable, Sendable {
        /// Conflicts changed; the index has the current ones.
        case conflicts
        /// An earlier version was added: the one that was current before.
        case gained(VersionID)
        /// A version that was not a conflict was removed; nil if its id is not known.
        case lost(VersionID?)
    }

    package var origin: Origin
    package var kind: Kind
    /// The row before; nil for a new item.
    package var before: ItemRow?
    /// The row after; nil for a removed item.
    package var after: ItemRow?
    /// For `.versions`: the change.
    package var versionsChange: VersionsChange?

    package init(
        origin: Origin, kind: Kind, before: ItemRow?, after: ItemRow?, versionsChange: VersionsChange? = nil
    ) {
        self.origin = origin
        self.kind = kind
        self.before = before
        self.after = after
        self.versionsChange = versionsChange
    }

    /// Whether an entry in the top folder was added or removed.
    var changesTopFolder: Bool {
        let (old, new) = (before?.entry, after?.entry)
        return old != new && (old?.parent == .root || new?.parent == .root)
    }
}
