package import UbiquityCore
internal import UbiquitySystem

// The operations of programs on the local tree. Each is one transaction.
extension ItemIndex {
    /// Makes a hard link to a file, symlink or special file (by inode number) in the folder `parent`.
    ///
    /// - Returns: The item.
    /// - Throws: `.stale` if the item is gone; the errors of `create`; `.notPermitted` for a folder;
    ///   `.crossesContainers` (EXDEV) if one name would be excluded and the other synced.
    package func link(ino: UInt64, in parent: UInt64, named name: ItemName) throws -> ItemRow {
        try space.require(for: .all)
        return try write(.local) { try $0.hardLinks.link(ino: ino, in: parent, named: name) }
    }

    /// Stores the current text of a folder's ignore file; nil if the file no longer exists. Unchanged text costs one
    /// read.
    package func setIgnoreText(_ text: [UInt8]?, of folder: ItemKey) throws {
        let known = try read { try $0.ignoreText(of: folder) }
        guard known != text else { return }
        let before = ignoreFiles[folder]
        ignoreFiles[folder] = text.map(IgnoreRules.init(text:))
        do {
            try write(.local) { transaction in
                try transaction.exclusion.setIgnoreText(text, of: folder)
                try transaction.exclusion.includeWhatIsNoLongerIgnored()
            }
        } catch {
            ignoreFiles[folder] = before
            throw error
        }
    }

    /// Returns folders that have an ignore file, or had one when it was last read. Call it once, at the start: it scans
    /// all names.
    package func foldersWithIgnoreFiles() throws -> [ItemKey] {
        try read { reader in
            try reader.meta.ignoreTexts().map(\.0) + reader.items.parents(ofItemsNamed: IgnoreRules.fileName)
        }
    }

    /// Loads the ignore files' texts. If the standard rules differ from those of the last start, includes items that no
    /// rule excludes any more.
    func loadIgnoreFiles() throws {
        for (folder, text) in try read({ try $0.meta.ignoreTexts() }) { ignoreFiles[folder] = IgnoreRules(text: text) }
        try write(.startup) { try $0.exclusion.noteStandardRules() }
    }

    /// Throws `.notPermitted` if an item created at that place would be excluded.
    package func requireSynced(_ name: ItemName, _ kind: ItemKind, in folder: ItemKey) throws {
        let isLocal = try write(.local) { transaction in
            try transaction.row(key: folder).map { try transaction.exclusion.keepsLocal(name, kind, in: $0) } ?? false
        }
        guard !isLocal else {
            throw UbiquityError(
                .notPermitted, "an ignore rule excludes this name from sync", at: "\(name)",
                remedy: "give it another name: ubiquity restore FILE VERSION --to NAME")
        }
    }

    package func row(ino: UInt64) throws -> ItemRow? {
        if let row = cache.rows.row(ino: ino) { return row }
        let epoch = cache.rows.epoch
        guard let row = try peek({ try $0.items.row(ino: ino) }) else { return nil }
        if let epoch { cache.rows.remember(row, if: epoch) }
        return row
    }

    package func row(key: ItemKey) throws -> ItemRow? {
        try cache.rows.row(key: key) ?? peek { try $0.items.row(key: key) }
    }

    /// Returns the item of that name; for a hard link, its target.
    package func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        let entry = ItemRow.Entry(parent: parent, name: name)
        switch cache.rows.child(at: entry) {
        case .row(let row) where row.kind != .hardLink: return row
        case .row(let link): return try peek { try $0.named(link) }
        case .nobody: return nil
        case .unknown: break
        }
        return try peek(readChild(entry, if: cache.rows.epoch))
    }

    /// - Parameter epoch: Nil if nothing may be cached.
    private func readChild(_ entry: ItemRow.Entry, if epoch: UInt64?) -> (IndexReader) throws -> ItemRow? {
        { [self] reader in
            let items = reader.items
            guard let epoch else { return try items.child(of: entry.parent, named: entry.name).flatMap(items.named) }
            if let row = try readInOrder(entry, if: epoch, reader) { return try items.named(row) }
            let row = try items.child(of: entry.parent, named: entry.name)
            cache.rows.remember(row, at: entry, if: epoch)
            if row != nil { cache.namesInOrder.withLock { $0.note(entry) } }
            return try row.flatMap(items.named)
        }
    }

    /// Returns the item of that name and caches those after it, if names are being read in order.
    private func readInOrder(_ entry: ItemRow.Entry, if epoch: UInt64, _ reader: IndexReader) throws -> ItemRow? {
        guard let (after, limit) = cache.namesInOrder.withLock({ $0.guess(entry) }) else { return nil }
        let rows = try reader.items.children(of: entry.parent, after: after, limit: limit)
        guard let first = rows.first, first.entry == entry, let last = rows.last?.entry?.name else {
            cache.namesInOrder.withLock { $0.refute(entry.parent) }
            return nil
        }
        cache.rows.remember(children: rows, if: epoch)
        cache.namesInOrder.withLock { $0.confirm(entry.parent, last: last) }
        return first
    }

    /// Changes an item by inode number. Throws `.stale` if the item is gone.
    func change(ino: UInt64, _ kind: IndexEvent.Kind, _ body: (IndexTransaction, inout ItemRow) throws -> Void) throws
        -> ItemRow
    {
        try write(.local) { transaction in
            guard let before = try transaction.row(ino: ino), !before.isDeleted else {
                throw UbiquityError(.stale, "the item is gone")
            }
            var row = before
            try body(transaction, &row)
            guard row != before else { return row }
            try transaction.update(row, before: before)
            transaction.note(kind, before: before, after: row)
            return row
        }
    }

    /// - Parameter time: The time of the change; nil means the present time.
    package func setAttributes(
        ino: UInt64, _ attributes: AttributeChange, at time: Timestamp? = nil
    ) throws -> ItemRow {
        try space.require(for: .changes)
        let now = time ?? timekeeper.now()
        return try change(ino: ino, .attributes) { transaction, row in
            row.changedAt = now
            if let uid = attributes.uid { row.uid = uid }
            if let gid = attributes.gid { row.gid = gid }
            if let mode = attributes.mode.map({ $0 & 0o7777 }), mode != row.mode {
                row.mode = mode
                try transaction.tree.markDirty(&row, .mode, now: now)
            }
            if let modified = attributes.modifiedAt, modified != row.modifiedAt {
                row.modifiedAt = modified
                try transaction.tree.markDirty(&row, .times, now: now)
            }
        }
    }

    package enum XattrMode: Sendable { case any, create, replace }

    /// Sets an extended attribute. Names in `user.` are synced, others stay on this device.
    ///
    /// - Throws: `.alreadyExists` or `.noSuchAttribute`, depending on the mode; `.noSpace` beyond
    ///   `Limits.maximumXattrBytes`.
    package func setXattr(ino: UInt64, _ xattr: Xattr, _ mode: XattrMode) throws {
        try space.require(for: .all)
        let now = timekeeper.now()
        _ = try change(ino: ino, .attributes) { transaction, row in
            try transaction.tree.take(row.setting(xattr, mode, now: now), in: &row, now: now)
        }
    }

    /// Removes an extended attribute. Throws `.noSuchAttribute`.
    package func removeXattr(ino: UInt64, named name: [UInt8]) throws {
        let now = timekeeper.now()
        _ = try change(ino: ino, .attributes) { transaction, row in
            try transaction.tree.take(row.removingXattr(named: name, now: now), in: &row, now: now)
        }
    }

    /// Records that a program opens the file for writing, before the open is answered. If the daemon dies, the next
    /// start compares the content.
    ///
    /// If the content is the cloud's, the record is durable before the first byte is written. Otherwise a power loss
    /// could leave new bytes in a file that the index considers unchanged. Throws `.stale` if the item is gone.
    package func beginWriting(ino: UInt64) throws -> ItemRow {
        let now = timekeeper.now()
        let row = try change(ino: ino, .attributes) { _, row in
            row.flags.insert(.writing)
            row.usedAt = now
        }
        if let content = row.content { try distrust(content) }
        return row
    }

    /// Records a writer's changes, at `fsync` and at its close.
    ///
    /// - Parameters:
    ///   - changed: Whether the content may differ from the content at the open.
    ///   - size: The backing file's size, bytes.
    ///   - modifiedAt: The backing file's mtime.
    ///   - changedAt: The backing file's ctime, which programs saw while the file was open; nil means the
    ///     present time.
    ///   - writtenAt: The time of the last write, if known.
    ///   - stillOpen: Whether any program still has the file open for writing.
    package func noteWriting(
        ino: UInt64, changed: Bool, size: Int64, modifiedAt: Timestamp, changedAt: Timestamp? = nil,
        writtenAt: Timestamp? = nil, stillOpen: Bool
    ) throws -> ItemRow {
        let now = timekeeper.now()
        return try change(ino: ino, changed ? .content : .attributes) { transaction, row in
            if stillOpen { transaction.noteWritingOn(row) } else { row.flags.remove(.writing) }
            row.flags.remove(.fresh)
            guard changed else { return }
            let writing = WritingNote(
                ino: ino, isChange: true, size: size, modifiedAt: modifiedAt, changedAt: changedAt ?? now,
                writtenAt: writtenAt, stillOpen: stillOpen)
            try transaction.writes.apply(writing, to: &row, now: now)
        }
    }

    /// Replaces a file's content by an empty one, so that truncation downloads nothing. The caller now owns the old
    /// content (`before.content`).
    package func replaceContent(ino: UInt64, with content: ContentID, isWriting: Bool) throws
        -> (before: ItemRow, after: ItemRow)
    {
        let now = timekeeper.now()
        return try write(.local) {
            try $0.writes.replaceContent(ino: ino, with: content, isWriting: isWriting, now: now)
        }
    }

    /// Records when files were last used, so that eviction takes the least recently used first. Missing files are
    /// skipped.
    package func noteUses(_ uses: [(ino: UInt64, time: Timestamp)]) throws {
        try write(.local) { transaction in
            for use in uses {
                guard let before = try transaction.row(ino: use.ino), !before.isDeleted else { continue }
                var row = before
                row.usedAt = use.time
                try transaction.update(row, before: before)
            }
        }
    }

    /// Returns files that a program had open for writing when the last process died. Call it once, at the start.
    package func interruptedWriters() throws -> [ItemRow] {
        try read { try $0.rows(RowCoding.select("items.flags & 1"), []) }
    }

    /// Creates an item in the folder `parent` (an inode number).
    ///
    /// - Parameter writing: Earlier writes to another file, recorded first.
    /// - Throws: `.notFound` if the folder is gone, `.notDirectory`, `.alreadyExists`, `.nameTooLong` for a folder
    ///   nested too deep.
    package func create(
        in parent: UInt64, named name: ItemName, _ new: NewItem, noting writing: WritingNote? = nil
    ) throws -> ItemRow {
        try space.require(for: .all)
        return try write(.local) { transaction in
            try transaction.writes.record(writing)
            return try transaction.tree.create(in: parent, named: name, new)
        }
    }

    /// Restores a stored state of a package, in place or as a new package. All members change in one transaction; equal
    /// ones stay. The restoration resolves the version's conflict once the state is at the cloud.
    ///
    /// - Parameters:
    ///   - contents: Copies of the files' contents by path.
    ///   - key: The package that the version belongs to.
    ///   - place: The place of a new package; nil to restore in place.
    /// - Returns: Contents no longer needed, which the caller now owns.
    /// - Throws: `.busy` if the package's current state is not at the cloud: it has no version yet and would be lost.
    package func place(
        _ tree: PackageTree, contents: [[ItemName]: ContentID], _ version: RemoteVersion, of key: ItemKey,
        at place: VersionPlace?
    ) throws -> [ContentID] {
        try write(.remote) {
            try PackagePlacing.place(tree, contents: contents, version, of: key, at: place, in: $0)
        }
    }

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
        try write(.local) {
            try $0.tree.remove(from: parent, named: name, directory: directory, process: process)
        }
    }

    /// Renames or moves an item. Folders are given by inode number.
    ///
    /// A file renamed over a file becomes its new content: identity, attributes and base version stay with the name, as
    /// editors that save by renaming expect. A synced item stays synced under an ignored name. It leaves sync, which
    /// deletes it elsewhere, if it moves into an excluded folder or gets a name that is always excluded. A file that
    /// was never uploaded becomes excluded under an ignored name.
    ///
    /// - Parameters:
    ///   - process: The calling process (or thread); 0 if unknown.
    ///   - isOnDisk: Whether the renamed content is synced to disk. Then the replaced content need not be kept for a
    ///     power loss.
    ///   - writing: Earlier writes to the renamed file, recorded first.
    /// - Throws: The errors of rename(2); `.crossesContainers` (EXDEV: copy instead) for a folder, or a file without
    ///   local content, that would leave sync.
    package func rename(
        from oldParent: UInt64, _ oldName: ItemName, to newParent: UInt64, _ newName: ItemName, _ mode: RenameMode,
        process: Int32 = 0, isOnDisk: Bool = false, noting writing: WritingNote? = nil
    ) throws -> RenameResult {
        try space.require(for: .changes)
        return try write(.local) { transaction in
            try transaction.renaming.rename(
                from: oldParent, oldName, to: newParent, newName, mode, process: process, isOnDisk: isOnDisk,
                noting: writing)
        }
    }

    /// Decides about versions of a file on this device. The decisions are uploaded later. Throws `.notFound` if the
    /// file is gone.
    ///
    /// - Returns: The version that the last restoration creates.
    @discardableResult
    package func decide(
        _ actions: [(kind: PendingVersionAction.Kind, version: VersionID)], of key: ItemKey
    ) throws -> VersionID? {
        try write(.local) { try $0.placing.decide(actions, of: key) }
    }

    /// Writes a version's content to a file, which is created if it does not exist. This resolves the version's
    /// conflict.
    ///
    /// The version stays undecided at the cloud until its content is uploaded as the file's. So it is kept whatever
    /// happens to this device.
    ///
    /// - Parameters:
    ///   - content: A copy of the version's content, which the item owns afterwards.
    ///   - ino: The item's new inode number if a program moved the version through the mount; nil for a new number, of
    ///     which the mount is notified.
    /// - Returns: The replaced content, which the caller now owns.
    package func place(
        _ version: RemoteVersion, of key: ItemKey, content: ContentID, ino: UInt64?, at place: VersionPlace
    ) throws -> ContentID? {
        try write(ino == nil ? .remote : .local) {
            try $0.placing.place(version, of: key, content: content, ino: ino, at: place)
        }
    }

    /// Replaces the content of an unchanged file and so decides a conflict.
    ///
    /// - Parameter generation: The generation of the row that the content was made from.
    /// - Returns: The replaced content, which the caller now owns. Nil if the file has changed or the conflict was
    ///   decided meanwhile: then nothing happens and the caller keeps `content`.
    package func replace(
        _ key: ItemKey, generation: Int64, version: VersionID?, with content: ContentID, size: Int64,
        resolving conflict: VersionID
    ) throws -> ContentID?? {
        try write(.remote) {
            try $0.placing.replace(
                key, generation: generation, version: version, with: content, size: size, resolving: conflict)
        }
    }

    /// Contents that replaced others and are not known to be synced to disk.
    package var replacements: Set<ContentID> { cache.replaced.all }

    /// Deletes the records of contents that are synced to disk.
    package func forgetReplacements(_ contents: Set<ContentID>) throws {
        guard !contents.isEmpty else { return }
        try write(.local) { transaction in
            for content in contents.sorted() {
                try transaction.execute("DELETE FROM replacements WHERE content = ?", [.int(content.rawValue)])
            }
        }
        cache.replaced.remove(contents)
    }

    /// Returns whether the content replaced another one and is not known to be synced to disk.
    package func isReplacement(_ content: ContentID) -> Bool { cache.replaced.contains(content) }

    /// Returns whether the item is such a folder.
    package func isPackage(_ row: ItemRow) -> Bool {
        guard row.kind == .directory, let name = row.entry?.name else { return false }
        return packages.isPackage(name, row.xattrs)
    }

    /// Returns whether an item's changes wait, because it may return to its old name.
    package func isHeld(_ key: ItemKey) -> Bool {
        !tunnels.isEmpty && tunnels.held(key, at: timekeeper.uptime()) != nil
    }

    /// Returns the time until changes of a tunnelled item can be uploaded; nil if there is none.
    package func timeUntilHoldEnds() -> Duration? { tunnels.nextEnd(at: timekeeper.uptime()) }
}
