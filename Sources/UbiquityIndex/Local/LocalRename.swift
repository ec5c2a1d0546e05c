internal import UbiquityCore

/// Renames an item, exchanges two items, or replaces the content of one by another.
struct LocalRename: TransactionPart {
    let transaction: IndexTransaction

    /// Renames or moves an item, or exchanges two. Folders are given by inode number.
    func rename(
        from oldParent: UInt64, _ oldName: ItemName, to newParent: UInt64, _ newName: ItemName, _ mode: RenameMode,
        process: Int32, isOnDisk: Bool, noting writing: WritingNote?
    ) throws -> RenameResult {
        var noted = try transaction.writes.noted(writing)
        let from = try tree.liveDirectory(ino: oldParent)
        let into = newParent == oldParent ? from : try tree.liveDirectory(ino: newParent)
        guard var source = try transaction.child(of: from.key, named: oldName) else {
            throw UbiquityError(.notFound, "no such item", at: "\(oldName)")
        }
        let isOfSource = noted?.stored.key == source.key
        if isOfSource, let noted { source = noted.row }
        if let known = noted, !isOfSource || mode == .exchanging {
            try transaction.writes.store(known)
            noted = nil
        }
        let target = try transaction.child(of: into.key, named: newName)
        if source.kind == .directory {
            guard try !items.isWithin(into.key, source.key) else {
                throw UbiquityError(.invalid, "a folder cannot be moved into itself")
            }
            if into.key != from.key { try tree.requireDepth(of: source, in: into) }
        }
        let move = Move(
            source: source, target: target, from: from, into: into, name: newName, now: index.timekeeper.now(),
            process: process, isOnDisk: isOnDisk, noted: noted)
        switch mode {
        case .exclusive where target != nil:
            throw UbiquityError(.alreadyExists, "an item with this name exists already", at: "\(newName)")
        case .exchanging: return try exchange(move)
        case .exclusive, .replacing: return try self.move(move)
        }
    }

    func move(_ move: Move) throws -> RenameResult {
        if let target = move.target, (target.linkedID ?? target.id) == (move.source.linkedID ?? move.source.id) {
            // Both are names of one file: POSIX demands that nothing happens.
            if let noted = move.noted { try transaction.writes.store(noted) }
            return RenameResult(moved: move.source)
        }
        let isBelowLocal = try staysLocal(move.source, as: move.name, in: move.into)
        if move.target == nil, let document = try documentTaking(move, excluded: isBelowLocal) {
            return try replaceContent(move, of: document)
        }
        // The item at the new name is synced, so its replacement is synced too, even under an ignored name.
        let mayLeave = move.target?.isExcluded ?? true
        // Checks the flags and the cloud's records: a power loss may have taken the flag that the item was sent.
        let isUnsent = try mayLeave && move.source.seemsUnsent && exclusion.isIgnored(move.name, .file, in: move.into)
            && reader.remotes.remote(id: move.source.id) == nil
        let excluded = try isBelowLocal || isUnsent
            || mayLeave && move.source.isExcluded && exclusion.isIgnored(move.name, move.source.kind, in: move.into)
        guard !excluded || move.source.isExcluded || move.source.canLeaveSync else {
            throw UbiquityError(.crossesContainers, "a folder, or a file without local content, cannot leave sync")
        }
        guard !move.source.hasSeveralNames || !move.crossesBorder else {
            throw UbiquityError(.crossesContainers, "a file with several hard links cannot enter or leave sync")
        }
        var replaced: ItemRow?
        if let target = move.target {
            guard (target.kind == .directory) == (move.source.kind == .directory) else {
                throw UbiquityError(
                    target.kind == .directory ? .isDirectory : .notDirectory,
                    "a file and a folder cannot replace each other")
            }
            try tree.requireKind(of: target, directory: target.kind == .directory)
            let isNextContent = try canReplaceContent(of: target, by: move.source, excluded: excluded)
            let tunnelling = transaction.tunnelling
            if isNextContent, let document = try tunnelling.documentWithLinkedBackup(target, now: move.now) {
                return try replaceContent(move, of: document, shown: target)
            } else if try leaveToOtherName(target, move) {
                // The old file stays at its other name.
            } else if isNextContent {
                return try replaceContent(move, of: target)
            } else {
                try transaction.contents.noteReplacement(move, of: target, item: move.source)
                try tree.remove(target, now: move.now)
                replaced = target
            }
        }
        if let noted = move.noted { try transaction.writes.store(noted) }
        let moved = try relocate(move.source, to: move.entry, excluded: excluded, now: move.now)
        try touchFolders(move, isSynced: !moved.isExcluded || !move.source.isExcluded || moved.kind.isSpecial)
        if move.source.isExcluded { index.tunnels.forget(move.source.key) }
        if !excluded || isUnsent { try transaction.tunnelling.giveUp(move.source, after: moved, process: move.process) }
        index.tunnels.noteTaker(moved.key, of: move.entry)
        return RenameResult(moved: moved, replaced: replaced)
    }

    private func leaveToOtherName(_ target: ItemRow, _ move: Move) throws -> Bool {
        guard target.isLinked else { return false }
        try transaction.contents.noteReplacement(move, of: target, item: move.source)
        return try hardLinks.moveToOtherName(target, now: move.now)
    }

    /// Returns whether an item of that name and place is excluded in every case.
    private func staysLocal(_ row: ItemRow, as name: ItemName, in folder: ItemRow) throws -> Bool {
        if folder.isExcluded || row.kind.isSpecial || name.isAlwaysLocal { return true }
        // A hard link to an excluded item is excluded too.
        return try row.linkedID.flatMap(items.row(id:))?.isExcluded ?? false
    }

    /// Returns the document whose next content the moved file is, although its name was free.
    private func documentTaking(_ move: Move, excluded: Bool) throws -> ItemRow? {
        guard !excluded, move.source.kind == .file, move.source.contentState == .complete, !move.source.isLinked,
            let document = try transaction.tunnelling.documentComingBack(
                to: move.entry, taker: move.source, process: move.process, now: move.now)
        else { return nil }
        return document
    }

    /// Returns whether the source can become the target's content: a file with local content can. A file with an
    /// undecided conflict stays a separate item.
    private func canReplaceContent(of target: ItemRow, by source: ItemRow, excluded: Bool) throws -> Bool {
        guard target.kind == .file, source.kind == .file, source.contentState == .complete, !source.isLinked,
            !excluded, !target.isExcluded
        else { return false }
        guard source.version != nil, try !reader.versions.conflicts(of: source.id).isEmpty else { return true }
        return try !reader.versions.conflicts(of: target.id).isEmpty
    }

    /// Replaces the target's inode, content and mode by the source's. The target keeps identity, attributes and base
    /// version.
    ///
    /// - Parameter shown: The target as observers know it, if that differs.
    func replaceContent(_ move: Move, of target: ItemRow, shown: ItemRow? = nil) throws -> RenameResult {
        let source = move.source
        // A document that returns to its name gave up its content before.
        if let visible = shown ?? (move.target?.key == target.key ? target : nil) {
            try transaction.contents.noteReplacement(move, of: visible)
        }
        if let content = target.content { try transaction.contents.forgetContent(content) }
        // The source gives up its inode and content first, so that no two rows ever share them.
        try surrender(move.noted?.stored ?? source, now: move.now)
        var row = target
        row.entry = move.entry
        row.ino = source.ino
        row.content = source.content
        row.contentState = .complete
        row.size = source.size
        row.modifiedAt = source.modifiedAt
        row.createdAt = target.createdAt
        row.changedAt = move.now
        row.uid = source.uid
        row.gid = source.gid
        row.usedAt = move.now
        row.flags.subtract([.writing, .fresh])
        row.flags.formUnion(source.flags.intersection([.writing, .fresh]))
        row.flags.insert(.keptCurrent)
        row.flags.remove(.downloadRequested)
        // File capabilities are not kept: the new program may come from somebody else.
        let kept = target.localXattrs.filter { $0.name != Privileges.capability }
        row.localXattrs = kept.overlaid(with: source.localXattrs)
        row.generation += 1
        row.nextVersion = nil
        if row.mode != source.mode {
            row.mode = source.mode
            try tree.markDirty(&row, .mode, now: move.now)
        }
        let xattrs = target.xattrs.overlaid(with: source.xattrs)
        row.xattrs = xattrs
        try tree.markXattrs(&row, from: target.xattrs, now: move.now)
        try tree.markDirty(&row, [.content, .times], now: move.now)
        try transaction.update(row, before: target)
        transaction.note(.removed, before: source, after: nil)
        transaction.note(.replaced, before: shown ?? target, after: row)
        try touchFolders(move, isSynced: true)
        try transaction.tunnelling.giveUp(source, after: nil, process: move.process)
        return RenameResult(moved: row, replaced: target)
    }

    /// Removes the source from the tree without its inode and content.
    private func surrender(_ source: ItemRow, now: Timestamp) throws {
        if let content = source.content { try transaction.contents.forgetContent(content) }
        guard !source.isExcluded else { return try transaction.delete(source) }
        var row = source
        try tree.markDirty(&row, .deleted, now: now)
        row.entry = nil
        row.content = nil
        row.contentState = .none
        row.nextVersion = nil
        row.flags.formIntersection([.creationSent, .madeHere])
        row.ino = UInt64(transaction.newNumber())
        try transaction.update(row, before: source)
    }

    /// Moves an item to another place, and includes or excludes it as the place demands.
    func relocate(
        _ before: ItemRow, to entry: ItemRow.Entry, excluded: Bool, now: Timestamp
    ) throws -> ItemRow {
        var row = before
        row.entry = entry
        row.changedAt = now
        if excluded == before.isExcluded {
            try tree.markDirty(&row, .place, now: now)
        } else if excluded {
            try leaveSync(&row, from: before, now: now)
        } else {
            try exclusion.include(&row, now: now)
        }
        try transaction.pins.inheritPin(&row)
        row.wantIgnoreFile()
        try transaction.update(row, before: before)
        transaction.note(.moved, before: before, after: row)
        try transaction.pins.passPin(of: row, before: before)
        if before.isExcluded, !excluded {
            try exclusion.includeChildren(of: row, now: now)
            try hardLinks.includeLinks(of: row, now: now)
        } else {
            try exclusion.includeAfterMove(row, from: before, now: now)
        }
        // Renaming one of a file's names counts as a change of the file.
        if row.kind == .hardLink { try hardLinks.touchLinked(row.linkedID, now: now) }
        return row
    }

    /// Keeps the item here under a new identity and deletes the old one at the cloud.
    ///
    /// - Parameter before: The row as the index has it.
    private func leaveSync(_ row: inout ItemRow, from before: ItemRow, now: Timestamp) throws {
        // From now on the content belongs to no version.
        if let content = row.content { try transaction.contents.forgetContent(content) }
        var tombstone = row
        let number = transaction.newNumber()
        tombstone.key = ItemKey(number)
        tombstone.ino = UInt64(number)
        tombstone.entry = nil
        tombstone.content = nil
        tombstone.contentState = .none
        tombstone.nextVersion = nil
        // The item may return to its name.
        tombstone.flags.formIntersection([.creationSent, .pinned, .madeHere])
        try tree.markDirty(&tombstone, .deleted, now: now)
        // The row must release its id before the tombstone takes it.
        row.id = transaction.newItemID()
        row.version = nil
        row.nextVersion = nil
        row.dirty = []
        row.flags.formIntersection([.writing, .linked])
        row.flags.insert(.excluded)
        var renamed = before
        renamed.id = row.id
        try transaction.update(renamed, before: before)
        try transaction.insert(tombstone)
        if row.isLinked { try hardLinks.retargetLinks(from: before.id, to: row.id) }
    }

    private func touchFolders(_ move: Move, isSynced: Bool) throws {
        try tree.touchFolder(move.from, now: move.now, isSynced: isSynced)
        if move.into.key != move.from.key { try tree.touchFolder(move.into, now: move.now, isSynced: isSynced) }
    }

    /// Swaps both items. Neither may change whether it is synced.
    func exchange(_ move: Move) throws -> RenameResult {
        guard let target = move.target else { throw UbiquityError(.notFound, "no such item", at: "\(move.name)") }
        guard target.key != move.source.key else { return RenameResult(moved: move.source, exchanged: target) }
        guard let back = move.source.entry else { throw UbiquityError(.notFound, "the item has no name any more") }
        if target.kind == .directory, try items.isWithin(move.from.key, target.key) {
            throw UbiquityError(.invalid, "a folder cannot be moved into itself")
        }
        if target.kind == .directory, move.from.key != move.into.key {
            try tree.requireDepth(of: target, in: move.from)
        }
        let sourceExcluded = try isExcluded(move.source, as: move.name, in: move.into)
        let targetExcluded = try isExcluded(target, as: back.name, in: move.from)
        guard sourceExcluded == move.source.isExcluded, targetExcluded == target.isExcluded else {
            throw UbiquityError(.crossesContainers, "an exchange cannot move items into or out of sync")
        }
        return try swap(move, target, back)
    }

    private func isExcluded(_ row: ItemRow, as name: ItemName, in folder: ItemRow) throws -> Bool {
        if try staysLocal(row, as: name, in: folder) { return true }
        return try row.isExcluded && exclusion.isIgnored(name, row.kind, in: folder)
    }

    private func swap(_ move: Move, _ target: ItemRow, _ back: ItemRow.Entry) throws -> RenameResult {
        var away = target
        away.entry = nil
        try transaction.update(away, before: target)
        let moved = try relocate(move.source, to: move.entry, excluded: move.source.isExcluded, now: move.now)
        var exchanged = away
        exchanged.entry = back
        exchanged.changedAt = move.now
        try tree.markDirty(&exchanged, .place, now: move.now)
        try transaction.pins.inheritPin(&exchanged)
        exchanged.wantIgnoreFile()
        try transaction.update(exchanged, before: away)
        transaction.note(.moved, before: target, after: exchanged)
        try transaction.pins.passPin(of: exchanged, before: target)
        try exclusion.includeAfterMove(exchanged, from: target, now: move.now)
        if exchanged.kind == .hardLink { try hardLinks.touchLinked(exchanged.linkedID, now: move.now) }
        try touchFolders(move, isSynced: !moved.isExcluded || moved.kind.isSpecial)
        try noteSaving(move, (move.source, moved), (target, exchanged))
        return RenameResult(moved: moved, exchanged: exchanged)
    }

    /// A document swapped with a new file gives its name to that file. Two documents keep their identities.
    private func noteSaving(
        _ move: Move, _ source: (before: ItemRow, after: ItemRow), _ target: (before: ItemRow, after: ItemRow)
    ) throws {
        let begin = move.now.advanced(bySeconds: -(Tunnels.window / .seconds(1)))
        // A new file may have been uploaded already, unless the other one has not been.
        let marks: [(ItemRow) -> Bool] = [{ $0.dirty.contains(.created) }, { $0.createdAt > begin }]
        guard let isNew = marks.first(where: { $0(source.before) != $0(target.before) }) else { return }
        let (document, made) = isNew(source.before) ? (target, source) : (source, target)
        try transaction.tunnelling.giveUp(document.before, after: document.after, process: move.process)
        if let place = document.before.entry { index.tunnels.noteTaker(made.after.key, of: place) }
    }
}
