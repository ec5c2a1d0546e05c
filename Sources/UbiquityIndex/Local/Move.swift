internal import UbiquityCore

/// The result of a rename.
package struct RenameResult: Sendable {
    /// The item now at the new name.
    package var moved: ItemRow
    /// After an exchange: the other item, now at the old name.
    package var exchanged: ItemRow?
    /// The former item at the new name, as it was, with its inode. The caller now owns its content.
    package var replaced: ItemRow?
}

package enum RenameMode: Sendable {
    case replacing
    /// Fails if the new name is taken.
    case exclusive
    /// Both items exist and are swapped.
    case exchanging
}

/// A rename in progress.
struct Move {
    var source: ItemRow
    var target: ItemRow?
    var from: ItemRow
    var into: ItemRow
    var name: ItemName
    var now: Timestamp
    var process: Int32 = 0
    /// Whether the source's content is synced to disk.
    var isOnDisk = false
    /// The source, if its writes are not recorded yet. They are recorded with its removal if it becomes another item's
    /// content.
    var noted: NotedRow?

    var entry: ItemRow.Entry { ItemRow.Entry(parent: into.key, name: name) }

    /// Whether the rename moves the item into or out of an excluded folder, or changes whether its name is always
    /// excluded.
    var crossesBorder: Bool {
        (from.isExcluded || source.entry?.name.isAlwaysLocal ?? false) != (into.isExcluded || name.isAlwaysLocal)
    }
}
