package import UbiquityCore

extension ItemIndex {
    /// Removes an item from the folder `parent`.
    ///
    /// The caller now owns its content, if any, and deletes the backing file when the last handle on it is closed. If
    /// it crashes before that, the next start deletes the file.
    ///
    /// - Parameters:
    ///   - directory: True to remove an empty folder (`rmdir`), false to remove anything else (`unlink`).
    ///   - process: The calling process (or thread); 0 if unknown.
    /// - Returns: The row before the removal.
    package func remove(
        from parent: UInt64, named name: ItemName, directory: Bool, process: Int32 = 0
    ) throws -> ItemRow {
        try write(.local) { transaction in
            let folder = try transaction.liveDirectory(ino: parent)
            guard let row = try transaction.child(of: folder.key, named: name) else {
                throw UbiquityError(.notFound, "no such item", at: "\(name)")
            }
            try transaction.requireKind(of: row, directory: directory)
            let now = timekeeper.now()
            if try transaction.moveToOtherName(row, now: now) {
                try transaction.touchFolder(folder, now: now, isSynced: !row.isExcluded || row.kind.isSpecial)
                try transaction.joinOnlyName(of: row.id, process: process, now: now)
                return row.withoutContent
            }
            if try !transaction.returnInsteadOfRemoving(row, now: now) {
                try transaction.remove(row, now: now)
                try transaction.giveUp(row, after: nil, process: process)
                if let linked = row.linkedID {
                    try transaction.joinOnlyName(of: linked, process: process, now: now)
                }
            }
            try transaction.touchFolder(folder, now: now, isSynced: !row.isExcluded || row.kind.isSpecial)
            return row
        }
    }
}

extension IndexTransaction {
    func requireKind(of row: ItemRow, directory: Bool) throws {
        if directory {
            guard row.kind == .directory else { throw UbiquityError(.notDirectory, "not a folder") }
            guard try !hasChildren(row.key) else { throw UbiquityError(.directoryNotEmpty, "the folder is not empty") }
        } else {
            guard row.kind != .directory else { throw UbiquityError(.isDirectory, "a folder") }
        }
    }

    /// Removes an item here. If the cloud may know it, a row without an entry stays until the cloud has the deletion.
    func remove(_ before: ItemRow, now: Timestamp) throws {
        if let content = before.content { try forgetContent(content) }
        if before.isExcluded {
            try delete(before)
        } else {
            var row = before
            try markDirty(&row, .deleted, now: now)
            // A folder is dirty since its members were created. The new position puts its deletion after theirs.
            row.dirtyOrder = try newDirtyOrder()
            row.entry = nil
            row.content = nil
            row.contentState = .none
            row.nextVersion = nil
            // A program that holds the file open may use the inode number, so the tombstone takes another.
            row.ino = UInt64(newNumber())
            // The cloud may have the item even if it never confirmed it. If the same save takes the name again, the
            // item is still pinned.
            row.flags.formIntersection([.creationSent, .pinned, .madeHere])
            try update(row, before: before)
        }
        note(.removed, before: before, after: nil)
        if before.kind == .hardLink { try touchLinked(before.linkedID, now: now) }
    }

    /// Returns the revision seen by the program that removes the item; nil if the cloud does not have it. A file may
    /// still show an older content while the newer one waits for a program, a name or a download. The older revision is
    /// unknown then, so the lowest counts.
    func revisionSeen(of row: ItemRow) throws -> Revision? {
        try currentPart.first(Self.seen, [SQLValue(row.version), SQLValue(row.id)]) { Revision($0.int(0)) }
    }

    private static let seen = {
        let waits = [SettlingState.awaitingContent, .waiting].map { "\($0.rawValue)" }.joined(separator: ", ")
        return """
            SELECT CASE WHEN unsettled IN (\(waits)) AND version <> ? THEN 1 ELSE revision END
            FROM remote WHERE id = ?
            """
    }()
}

extension ItemRow {
    /// The row without content, for the caller that deletes removed contents: the content still has another name.
    fileprivate var withoutContent: ItemRow {
        var row = self
        row.content = nil
        return row
    }
}
