package import UbiquityCore

/// What a rename did.
package struct RenameResult: Sendable {
    /// The item now at the new name.
    package var moved: ItemRow
    /// With an exchange: the other item, now at the old name.
    package var exchanged: ItemRow?
    /// What stood at the new name and is gone, as it was: its inode, and its content, which belongs to the caller now.
    package var replaced: ItemRow?
}

package enum RenameMode: Sendable {
    case replacing
    /// Fails if the new name is taken.
    case exclusive
    /// Both exist and change places.
    case exchanging
}

extension ItemIndex {
    /// Renames or moves an item; folders are given by inode number.
    ///
    /// A file put over a file is a new content of the one that stood there: its identity, attributes and base version
    /// stay with the name, as editors that save by renaming expect.
    /// What is synced stays so under an ignored name; it leaves sync, as a deletion elsewhere, when it goes into a
    /// folder that is kept local or gets a name that always is. A file that never went up does not under that name.
    /// Throws what rename(2) has an errno for; `.crossesContainers` (EXDEV: copy instead) for a folder, or a file that
    /// is not here, that would leave sync.
    /// - Parameters:
    ///   - process: the calling process (or thread); 0 if it is not known.
    ///   - isOnDisk: whether the content that is renamed is on the disk, so that what it replaces need not be kept for
    ///     a loss of power.
    ///   - writing: to the file that is renamed, noted before.
    package func rename(
        from oldParent: UInt64, _ oldName: ItemName, to newParent: UInt64, _ newName: ItemName, _ mode: RenameMode,
        process: Int32 = 0, isOnDisk: Bool = false, noting writing: WritingNote? = nil
    ) throws -> RenameResult {
        try requireRoom(for: .changes)
        return try write(.local) { transaction in
            var noted = try transaction.noted(writing)
            let from = try transaction.liveDirectory(ino: oldParent)
            let into = newParent == oldParent ? from : try transaction.liveDirectory(ino: newParent)
            guard var source = try transaction.child(of: from.key, named: oldName) else {
                throw UbiquityError(.notFound, "no such item", at: "\(oldName)")
            }
            let isOfSource = noted?.stored.key == source.key
            if isOfSource, let noted { source = noted.row }
            if let known = noted, !isOfSource || mode == .exchanging {
                try transaction.write(known)
                noted = nil
            }
            let target = try transaction.child(of: into.key, named: newName)
            if source.kind == .directory {
                guard try !transaction.isWithin(into.key, source.key) else {
                    throw UbiquityError(.invalid, "a folder cannot be moved into itself")
                }
                if into.key != from.key { try transaction.requireDepth(of: source, in: into) }
            }
            let move = Move(
                source: source, target: target, from: from, into: into, name: newName, now: timekeeper.now(),
                process: process, isOnDisk: isOnDisk, noted: noted)
            switch mode {
            case .exclusive where target != nil:
                throw UbiquityError(.alreadyExists, "there is an item of this name", at: "\(newName)")
            case .exchanging: return try transaction.exchange(move)
            case .exclusive, .replacing: return try transaction.move(move)
            }
        }
    }
}

/// A rename under way.
struct Move {
    var source: ItemRow
    var target: ItemRow?
    var from: ItemRow
    var into: ItemRow
    var name: ItemName
    var now: Timestamp
    var process: Int32 = 0
    /// Whether the source's content is.
    var isOnDisk = false
    /// The source, if what was written to it has to be noted: with its end, if it becomes another's content.
    var noted: NotedRow?

    var entry: ItemRow.Entry { ItemRow.Entry(parent: into.key, name: name) }

    /// Whether it leads out of a folder that is kept local, or into one.
    var crossesBorder: Bool {
        (from.isExcluded || source.entry?.name.isAlwaysLocal ?? false) != (into.isExcluded || name.isAlwaysLocal)
    }
}

extension IndexTransaction {
    func move(_ move: Move) throws -> RenameResult {
        if let target = move.target, (target.linkedID ?? target.id) == (move.source.linkedID ?? move.source.id) {
            // Two names of one file: POSIX has nothing done.
            if let noted = move.noted { try write(noted) }
            return RenameResult(moved: move.source)
        }
        let isBelowLocal = try staysLocal(move.source, as: move.name, in: move.into)
        if move.target == nil, let document = try documentTaking(move, excluded: isBelowLocal) {
            return try replaceContent(move, of: document)
        }
        // Who has the name is synced: what takes its place is too, though the name is ignored.
        let mayLeave = move.target?.isExcluded ?? true
        // By its marks, of which a power loss may have taken the one that it was sent, and by what the cloud has told.
        let isUnsent = try mayLeave && move.source.seemsUnsent && isIgnored(move.name, .file, in: move.into)
            && remote(id: move.source.id) == nil
        let excluded = try isBelowLocal || isUnsent
            || mayLeave && move.source.isExcluded && isIgnored(move.name, move.source.kind, in: move.into)
        guard !excluded || move.source.isExcluded || move.source.canLeaveSync else {
            throw UbiquityError(.crossesContainers, "a folder, or a file that is not here, cannot leave sync")
        }
        guard !move.source.hasSeveralNames || !move.crossesBorder else {
            throw UbiquityError(.crossesContainers, "a file of several names cannot leave sync, or come into it")
        }
        var replaced: ItemRow?
        if let target = move.target {
            guard (target.kind == .directory) == (move.source.kind == .directory) else {
                throw UbiquityError(target.kind == .directory ? .isDirectory : .notDirectory, "the kinds differ")
            }
            try requireKind(of: target, directory: target.kind == .directory)
            let isNextContent = try canReplaceContent(of: target, by: move.source, excluded: excluded)
            if isNextContent, let document = try documentWithLinkedBackup(target, now: move.now) {
                return try replaceContent(move, of: document, shown: target)
            } else if try leaveToOtherName(target, move) {
                // The old file lives on there.
            } else if isNextContent {
                return try replaceContent(move, of: target)
            } else {
                try noteReplacement(move, of: target, item: move.source)
                try remove(target, now: move.now)
                replaced = target
            }
        }
        if let noted = move.noted { try write(noted) }
        let moved = try relocate(move.source, to: move.entry, excluded: excluded, now: move.now)
        try touchFolders(move, isSynced: !moved.isExcluded || !move.source.isExcluded || moved.kind.isSpecial)
        if move.source.isExcluded { index.tunnels.forget(move.source.key) }
        if !excluded || isUnsent { try giveUp(move.source, after: moved, process: move.process) }
        index.tunnels.noteTaker(moved.key, of: move.entry)
        return RenameResult(moved: moved, replaced: replaced)
    }

    private func leaveToOtherName(_ target: ItemRow, _ move: Move) throws -> Bool {
        guard target.isLinked else { return false }
        try noteReplacement(move, of: target, item: move.source)
        return try moveToOtherName(target, now: move.now)
    }

    /// Whether an item of that name and place is one of this device only, whatever else is the case.
    private func staysLocal(_ row: ItemRow, as name: ItemName, in folder: ItemRow) throws -> Bool {
        if folder.isExcluded || row.kind.isSpecial || name.isAlwaysLocal { return true }
        // A name of what is kept local is kept local too.
        return try row.linkedID.flatMap(self.row(id:))?.isExcluded ?? false
    }

    /// The document whose next content the moved file is, though its name was free.
    private func documentTaking(_ move: Move, excluded: Bool) throws -> ItemRow? {
        guard !excluded, move.source.kind == .file, move.source.contentState == .complete, !move.source.isLinked,
            let document = try documentComingBack(
                to: move.entry, taker: move.source, process: move.process, now: move.now)
        else { return nil }
        return document
    }

    /// A file whose content is here may become the content of the file at the new name. One with a conflict that nobody
    /// has decided stays the item that it is.
    private func canReplaceContent(of target: ItemRow, by source: ItemRow, excluded: Bool) throws -> Bool {
        guard target.kind == .file, source.kind == .file, source.contentState == .complete, !source.isLinked,
            !excluded, !target.isExcluded
        else { return false }
        guard source.version != nil, try !conflicts(of: source.id).isEmpty else { return true }
        return try !conflicts(of: target.id).isEmpty
    }

    /// The target keeps identity, attributes and base version, and takes the source's inode, content and mode.
    /// - Parameter shown: the target as observers know it, if that is another.
    func replaceContent(_ move: Move, of target: ItemRow, shown: ItemRow? = nil) throws -> RenameResult {
        let source = move.source
        // Of a document that comes back to its name, its content has been given up before.
        if let visible = shown ?? (move.target?.key == target.key ? target : nil) {
            try noteReplacement(move, of: visible)
        }
        if let content = target.content { try forgetContent(content) }
        // First the source gives its inode and content away, so that no two rows ever have the same.
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
        // But not the rights that a program had: this is another one, maybe of somebody else.
        let kept = target.localXattrs.filter { $0.name != Privileges.capability }
        row.localXattrs = kept.overlaid(with: source.localXattrs)
        row.generation += 1
        row.nextVersion = nil
        if row.mode != source.mode {
            row.mode = source.mode
            try markDirty(&row, .mode, now: move.now)
        }
        let xattrs = target.xattrs.overlaid(with: source.xattrs)
        row.xattrs = xattrs
        try markXattrs(&row, from: target.xattrs, now: move.now)
        try markDirty(&row, [.content, .times], now: move.now)
        try update(row, before: target)
        note(.removed, before: source, after: nil)
        note(.replaced, before: shown ?? target, after: row)
        try touchFolders(move, isSynced: true)
        try giveUp(source, after: nil, process: move.process)
        return RenameResult(moved: row, replaced: target)
    }

    /// Takes the source out of the tree without its inode and content.
    private func surrender(_ source: ItemRow, now: Timestamp) throws {
        if let content = source.content { try forgetContent(content) }
        guard !source.isExcluded else { return try delete(source) }
        var row = source
        try markDirty(&row, .deleted, now: now)
        row.entry = nil
        row.content = nil
        row.contentState = .none
        row.nextVersion = nil
        row.flags.formIntersection([.creationSent, .madeHere])
        row.ino = UInt64(newNumber())
        try update(row, before: source)
    }

    /// Gives an item another place, and takes it into or out of sync as the place says.
    func relocate(
        _ before: ItemRow, to entry: ItemRow.Entry, excluded: Bool, now: Timestamp
    ) throws -> ItemRow {
        var row = before
        row.entry = entry
        row.changedAt = now
        if excluded == before.isExcluded {
            try markDirty(&row, .place, now: now)
        } else if excluded {
            try leaveSync(&row, from: before, now: now)
        } else {
            try include(&row, now: now)
        }
        try inheritPin(&row)
        row.wantIgnoreFile()
        try update(row, before: before)
        note(.moved, before: before, after: row)
        try passPin(of: row, before: before)
        if before.isExcluded, !excluded {
            try includeChildren(of: row, now: now)
            try includeLinks(of: row, now: now)
        } else {
            try includeAfterMove(row, from: before, now: now)
        }
        // To rename a file by one of its names is a change of the file.
        if row.kind == .hardLink { try touchLinked(row.linkedID, now: now) }
        return row
    }

    /// The item stays here under a new identity; the old one is deleted at the cloud.
    /// - Parameter before: The row as the index has it.
    private func leaveSync(_ row: inout ItemRow, from before: ItemRow, now: Timestamp) throws {
        // From now on the content is of no version.
        if let content = row.content { try forgetContent(content) }
        var tombstone = row
        let number = newNumber()
        tombstone.key = ItemKey(number)
        tombstone.ino = UInt64(number)
        tombstone.entry = nil
        tombstone.content = nil
        tombstone.contentState = .none
        tombstone.nextVersion = nil
        // It may come back to its name.
        tombstone.flags.formIntersection([.creationSent, .pinned, .madeHere])
        try markDirty(&tombstone, .deleted, now: now)
        // The row's id must be free before the tombstone takes it.
        row.id = newItemID()
        row.version = nil
        row.nextVersion = nil
        row.dirty = []
        row.flags.formIntersection([.writing, .linked])
        row.flags.insert(.excluded)
        var renamed = before
        renamed.id = row.id
        try update(renamed, before: before)
        try insert(tombstone)
        if row.isLinked { try retargetLinks(from: before.id, to: row.id) }
    }

    private func touchFolders(_ move: Move, isSynced: Bool) throws {
        try touchFolder(move.from, now: move.now, isSynced: isSynced)
        if move.into.key != move.from.key { try touchFolder(move.into, now: move.now, isSynced: isSynced) }
    }

    /// Both items change places; neither may cross the border of what is synced.
    func exchange(_ move: Move) throws -> RenameResult {
        guard let target = move.target else { throw UbiquityError(.notFound, "no such item", at: "\(move.name)") }
        guard target.key != move.source.key else { return RenameResult(moved: move.source, exchanged: target) }
        guard let back = move.source.entry else { throw UbiquityError(.notFound, "the item has no place") }
        if target.kind == .directory, try isWithin(move.from.key, target.key) {
            throw UbiquityError(.invalid, "a folder cannot be moved into itself")
        }
        if target.kind == .directory, move.from.key != move.into.key { try requireDepth(of: target, in: move.from) }
        let sourceExcluded = try isExcluded(move.source, as: move.name, in: move.into)
        let targetExcluded = try isExcluded(target, as: back.name, in: move.from)
        guard sourceExcluded == move.source.isExcluded, targetExcluded == target.isExcluded else {
            throw UbiquityError(.crossesContainers, "an exchange cannot move items in or out of sync")
        }
        return try swap(move, target, back)
    }

    private func isExcluded(_ row: ItemRow, as name: ItemName, in folder: ItemRow) throws -> Bool {
        if try staysLocal(row, as: name, in: folder) { return true }
        return try row.isExcluded && isIgnored(name, row.kind, in: folder)
    }

    private func swap(_ move: Move, _ target: ItemRow, _ back: ItemRow.Entry) throws -> RenameResult {
        var away = target
        away.entry = nil
        try update(away, before: target)
        let moved = try relocate(move.source, to: move.entry, excluded: move.source.isExcluded, now: move.now)
        var exchanged = away
        exchanged.entry = back
        exchanged.changedAt = move.now
        try markDirty(&exchanged, .place, now: move.now)
        try inheritPin(&exchanged)
        exchanged.wantIgnoreFile()
        try update(exchanged, before: away)
        note(.moved, before: target, after: exchanged)
        try passPin(of: exchanged, before: target)
        try includeAfterMove(exchanged, from: target, now: move.now)
        if exchanged.kind == .hardLink { try touchLinked(exchanged.linkedID, now: move.now) }
        try touchFolders(move, isSynced: !moved.isExcluded || moved.kind.isSpecial)
        try noteSaving(move, (move.source, moved), (target, exchanged))
        return RenameResult(moved: moved, exchanged: exchanged)
    }

    /// A document that changes places with a new file gives its name up to that; two documents stay who they are.
    private func noteSaving(
        _ move: Move, _ source: (before: ItemRow, after: ItemRow), _ target: (before: ItemRow, after: ItemRow)
    ) throws {
        let begin = move.now.advanced(bySeconds: -(Tunnels.window / .seconds(1)))
        // What has gone up may be as new; but not if the other one has not.
        let marks: [(ItemRow) -> Bool] = [{ $0.dirty.contains(.created) }, { $0.createdAt > begin }]
        guard let isNew = marks.first(where: { $0(source.before) != $0(target.before) }) else { return }
        let (document, made) = isNew(source.before) ? (target, source) : (source, target)
        try giveUp(document.before, after: document.after, process: move.process)
        if let place = document.before.entry { index.tunnels.noteTaker(made.after.key, of: place) }
    }
}

extension ItemRow {
    /// What an ignore file says is needed here without anybody opening it.
    package mutating func wantIgnoreFile() {
        guard kind == .file, contentState != .complete, entry?.name == IgnoreRules.fileName else { return }
        flags.insert(.downloadRequested)
    }

    /// Whether it is a file of which, by its marks, the cloud cannot have heard.
    fileprivate var seemsUnsent: Bool {
        kind == .file && !isExcluded && !isLinked && contentState == .complete && dirty.contains(.created)
            && !flags.contains(.creationSent)
    }

    /// Whether its identity can be given up for one that only this device has: a folder's content would have to leave
    /// with it, and what is not here cannot be kept.
    var canLeaveSync: Bool { kind == .symlink || kind == .hardLink || kind == .file && contentState == .complete }

    /// Of what has several names, none crosses the border of what is kept local.
    fileprivate var hasSeveralNames: Bool { !kind.isSpecial && (isLinked || kind == .hardLink) }
}
