package import UbiquityCore

extension ItemIndex {
    /// Takes an item out of the folder `parent`.
    ///
    /// Its content, if any, belongs to the caller from now on, who deletes the backing file when the last handle on it
    /// is closed (a crash before that leaves a file that the next start sweeps away).
    /// - Parameters:
    ///   - directory: whether a folder is meant (`rmdir`), which must be empty, or anything else (`unlink`).
    ///   - process: the calling process (or thread); 0 if it is not known.
    /// - Returns: the row as it was.
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

    /// Takes an item away here. What the cloud may know stays as a row without an entry until the cloud has been told.
    func remove(_ before: ItemRow, now: Timestamp) throws {
        if let content = before.content { try forgetContent(content) }
        if before.isExcluded {
            try delete(before)
        } else {
            var row = before
            try markDirty(&row, .deleted, now: now)
            // A folder is dirty since something was made in it: its deletion comes after those of what was in it.
            row.dirtyOrder = try newDirtyOrder()
            row.entry = nil
            row.content = nil
            row.contentState = .none
            row.nextVersion = nil
            // The number may be in use by a program that holds the file open: the tombstone takes another.
            row.ino = UInt64(newNumber())
            // The cloud may have it, though it never said so. Should its name be taken again by the same saving, it is
            // still pinned.
            row.flags.formIntersection([.creationSent, .pinned, .madeHere])
            try update(row, before: before)
        }
        note(.removed, before: before, after: nil)
        if before.kind == .hardLink { try touchLinked(before.linkedID, now: now) }
    }

    /// What who removes the item has seen of it; nil if the cloud does not have it. Of a file whose newer content waits
    /// for a program here, for a name, or has still to be downloaded, that is the older one, whose revision nobody
    /// knows any more: the first counts, which no content has that was made from another one.
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
    /// For who is to do away with the content of what was removed: there is none, it has another name.
    fileprivate var withoutContent: ItemRow {
        var row = self
        row.content = nil
        return row
    }
}
