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

extension ItemRow {
    /// Requests the download of an ignore file: its rules apply here even if no program opens it.
    package mutating func wantIgnoreFile() {
        guard kind == .file, contentState != .complete, entry?.name == IgnoreRules.fileName else { return }
        flags.insert(.downloadRequested)
    }

    /// Whether the flags say that the cloud cannot know the file.
    var seemsUnsent: Bool {
        kind == .file && !isExcluded && !isLinked && contentState == .complete && dirty.contains(.created)
            && !flags.contains(.creationSent)
    }

    /// Whether the item can get a new identity that only this device has. A folder cannot, because its members would
    /// have to follow; a file without local content cannot either.
    var canLeaveSync: Bool { kind == .symlink || kind == .hardLink || kind == .file && contentState == .complete }

    /// Whether the item has several names: none of them may change whether it is synced.
    var hasSeveralNames: Bool { !kind.isSpecial && (isLinked || kind == .hardLink) }
}
