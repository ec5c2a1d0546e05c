internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
package import UbiquitySystem

// stat(2) and what changes it.
extension ContainerFileSystem {
    /// - Parameter handle: an open file's, if the question came with one.
    package func attributes(of ino: UInt64, handle: UInt64? = nil) throws -> NodeAttributes {
        if let node = versionNodes.node(ino) { return try attributes(of: node, ino) }
        let (row, isOrphan) = try row(ino)
        // While it is written to, its attributes are asked for each time.
        if row.contentState == .complete, !row.isWriting { inodes.withNode(ino) { $0.looks.add() } }
        return try attributes(of: row, isOrphan: isOrphan)
    }

    func attributes(of row: ItemRow, isOrphan: Bool = false) throws -> NodeAttributes {
        switch row.kind {
        case .directory:
            let count = isOrphan ? -2 : try directoryCount(in: row)
            return makeAttributes(of: row, links: UInt32(2 + count))
        case .symlink, .hardLink, .fifo, .socket, .characterDevice, .blockDevice:
            return makeAttributes(of: row, links: isOrphan ? 0 : try nameCount(of: row))
        case .file: return try fileAttributes(of: row, isOrphan: isOrphan)
        }
    }

    private func makeAttributes(of row: ItemRow, links: UInt32) -> NodeAttributes {
        NodeAttributes(
            ino: row.ino, mode: FileMode.type(of: row.kind) | row.mode, links: links, uid: row.uid, gid: row.gid,
            size: row.size, blocks: 0, accessedAt: inodes.accessTime(row.ino) ?? row.modifiedAt,
            modifiedAt: row.modifiedAt, changedAt: row.changedAt, createdAt: row.createdAt,
            device: row.device)
    }

    /// While a program writes to a file, and when it is gone but open, the backing file knows size and times.
    private func fileAttributes(of known: ItemRow, isOrphan: Bool) throws -> NodeAttributes {
        var row = known
        var live = row.isWriting || isOrphan ? try liveStatus(row.ino) : nil
        // What was written may have been noted since the row was read, and the last writer have closed it: then the
        // index knows times, or all, again. Not so where it could not be noted, or nobody has looked at it yet since
        // the last start.
        for _ in 0..<Self.looksAtWriting where live?.isUnnoted != true && row.isWriting && !isOrphan {
            guard let now = try index.row(ino: row.ino), now != row else { break }
            row = now
            live = row.isWriting ? try liveStatus(row.ino) : nil
        }
        var attributes = makeAttributes(of: row, links: isOrphan ? 0 : try nameCount(of: row))
        if let (status, mayBeMapped, isUnnoted) = live {
            attributes.isChanging = mayBeMapped
            attributes.size = status.size
            attributes.blocks = status.blocks
            if status.modifiedAt != row.modifiedAt { attributes.modifiedAt = status.modifiedAt }
            // What was set when it was opened is no program's doing, and gone with the close.
            if isOrphan || isUnnoted { attributes.changedAt = max(row.changedAt, status.changedAt) }
            if inodes.accessTime(row.ino) == nil { attributes.accessedAt = attributes.modifiedAt }
        } else {
            // What was written to it is not noted yet: the kernel is to ask again.
            attributes.isChanging = row.isWriting
            attributes.blocks = try blocks(of: row)
        }
        return attributes
    }

    /// A file that is opened and closed all the time may be closed at each look.
    private static let looksAtWriting = 4

    /// How many names it has.
    private func nameCount(of row: ItemRow) throws -> UInt32 {
        guard row.isLinked else { return 1 }
        // It may wait for its place while hard links to it have theirs.
        return UInt32(clamping: try index.peek { try $0.linkCount(of: row) } + (row.entry == nil ? 0 : 1))
    }

    /// Of the backing file, if it is whole and open; and whether it has changed since the index was told.
    private func liveStatus(_ ino: UInt64) throws -> (FileStatus, mayBeMapped: Bool, isUnnoted: Bool)? {
        guard let state = openNodes.node(ino)?.state.withLock({ $0 }), let file = state.whole?.file else { return nil }
        let status = try file.status()
        return (status, state.mayBeMapped, state.isTouched || OpenNode.Stamp(status) != state.stamp)
    }

    /// What the content takes here. What is not empty has 1 and not 0, unless it is wholly here and all hole: GNU tar
    /// and others take a file without blocks for one that holds nothing but zeros, and do not read it. What is empty
    /// has none: to look what is reserved for it takes a third of a cold `stat`.
    private func blocks(of row: ItemRow) throws -> Int64 {
        guard row.size > 0 else { return 0 }
        guard row.contentState != .none, let content = row.content else { return 1 }
        let open = openFile(of: content, ino: row.ino)
        guard let status = try open?.status() ?? contents.status(of: content) else { return 1 }
        // Some file systems say so of what was just written, too.
        guard status.blocks == 0, status.size > 0, row.contentState == .complete else { return max(status.blocks, 1) }
        let file = try open ?? contents.open(content, writable: false)
        return try file.nextData(from: 0) == nil ? 0 : 1
    }

    /// The content's file, if it is open by now or was a moment ago: by its path it takes several times as long.
    func openFile(of content: ContentID, ino: UInt64) -> FileDescriptor? {
        if let file = idle.file(ino, content) { return file }
        return openNodes.node(ino)?.state.withLock { $0.whole?.id == content ? $0.whole?.file : nil }
    }

    /// How many directories are in it, counted again only after a change.
    private func directoryCount(in row: ItemRow) throws -> Int {
        let known = inodes.withNode(row.ino) { ($0.directoryCount, $0.listing) }
        if let count = known?.0 { return count }
        let count = try index.peek { try $0.directoryCount(in: row.key) }
        inodes.withNode(row.ino) { node in
            // A change that came meanwhile may not be in the count.
            if node.listing == known?.1 { node.directoryCount = count }
        }
        return count
    }

    // MARK: Changing

    /// - Parameter handle: an open file's, if the change came with one (ftruncate).
    func setAttributesUnclaimed(
        of ino: UInt64, _ changes: AttributeChanges, handle: UInt64? = nil, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        guard !isInVersions(ino) else { throw Errno.EPERM }
        guard let size = changes.size else { return .now(try setMetadata(of: ino, changes, caller)) }
        return try truncate(ino, to: size, handle: handle, caller).map { [self] in
            try setMetadata(of: ino, changes, caller)
        }
    }

    private func setMetadata(of ino: UInt64, _ changes: AttributeChanges, _ caller: Caller) throws -> NodeAttributes {
        // What was written before is no doing of this.
        finishCloses(of: ino)
        let (row, isOrphan) = try row(ino)
        if isOrphan { try requireOpen(row) }
        if changes.dropsPrivileges, !mayDropPrivileges(of: row, caller) { throw Errno.EPERM }
        // One time for both: who sets both to the present time expects the same in both.
        let now = parts.timekeeper.now()
        let change = attributeChange(row, changes, caller, now)
        noteAccess(ino, changes, now)
        if let modified = change.modifiedAt, row.kind == .file { try setBackingTime(ino, modified) }
        // Setting the time of the last access alone is a change of the status, too.
        let isChange = change.mode != nil || change.uid != nil || change.gid != nil || change.modifiedAt != nil
        guard isChange || changes.accessedAt != nil || changes.dropsPrivileges else {
            return try attributes(of: row, isOrphan: isOrphan)
        }
        if let mode = change.mode, FileMode.withoutPrivileges(mode) != nil {
            openNodes.node(ino)?.state.withLock { $0.hasPrivileges = true }
        }
        guard isOrphan else { return try attributes(of: try index.setAttributes(ino: ino, change, at: now)) }
        let changed = row.applying(change, now: now)
        inodes.withNode(ino) { $0.orphan = changed }
        return try attributes(of: changed, isOrphan: true)
    }

    /// What has left the tree by another device's doing while nobody had it open the kernel only knows by a name that
    /// leads elsewhere by now, or nowhere. Throws ESTALE: then it looks that up anew. (Who has a folder open is not
    /// known.)
    func requireOpen(_ orphan: ItemRow) throws {
        if orphan.kind == .file, orphan.entry != nil, openNodes.node(orphan.ino) == nil { throw Errno.ESTALE }
    }

    /// The owner may, and who is about to write. Which of the two it is the kernel does not say.
    private func mayDropPrivileges(of row: ItemRow, _ caller: Caller) -> Bool {
        if caller.uid == 0 || caller.uid == row.uid { return true }
        if row.kind == .directory || FileMode.withoutPrivileges(row.mode) == nil { return true }
        return files.all.contains { $0.flags.writes && $0.node.ino == row.ino }
    }

    private func attributeChange(
        _ row: ItemRow, _ changes: AttributeChanges, _ caller: Caller, _ now: Timestamp
    ) -> AttributeChange {
        var change = AttributeChange(mode: changes.mode, uid: changes.uid, gid: changes.gid)
        switch changes.modifiedAt {
        case .now: change.modifiedAt = now
        case .at(let time): change.modifiedAt = time
        case nil: break
        }
        // A new owner, and a truncation by an ordinary user, take away the right to act as the owner. With
        // HANDLE_KILLPRIV_V2 the kernel leaves that to the file system.
        let givesAway = changes.uid != nil || changes.gid != nil || changes.dropsPrivileges
            || (changes.size != nil && caller.uid != 0)
        if changes.mode == nil, givesAway, row.kind != .directory, let cleared = FileMode.withoutPrivileges(row.mode) {
            change.mode = cleared
        }
        return change
    }

    /// The last access is not stored: nothing changes by being read. What was set explicitly is remembered while the
    /// kernel knows the file.
    private func noteAccess(_ ino: UInt64, _ changes: AttributeChanges, _ now: Timestamp) {
        guard let time = changes.accessedAt else { return }
        let accessed: Timestamp
        switch time {
        case .now: accessed = now
        case .at(let time): accessed = time
        }
        inodes.withNode(ino) { $0.accessedAt = accessed }
    }

    /// While a file is open for writing its times come from the backing file, so that gets the time as well. That is
    /// not a change of the content.
    private func setBackingTime(_ ino: UInt64, _ time: Timestamp) throws {
        guard let node = openNodes.node(ino) else { return }
        try node.state.withLock { state throws(Errno) in
            guard let file = state.whole?.file else { return }
            // Writes that this process does not see may come between the looks: then it counts as changed.
            let seesWrites = state.service.backing == nil && !state.mayBeMapped
            let stamp = OpenNode.Stamp(try file.status())
            let isUnchanged = seesWrites && state.stamp == stamp
            try file.setTimes(accessed: nil, modified: time)
            if isUnchanged { state.stamp = OpenNode.Stamp(try file.status()) }
        }
    }

    package func readLink(_ ino: UInt64) throws -> [UInt8] {
        if let node = versionNodes.node(ino) {
            guard let member = versionNodes.member(node), member.kind == .symlink else { throw Errno.EINVAL }
            return member.linkTarget
        }
        let row = try row(ino).row
        guard row.kind == .symlink else { throw Errno.EINVAL }
        return row.linkTarget
    }

    /// What is stored here takes room on the file system that the contents are on, and in the account.
    package func statistics() throws -> FileSystemStatus {
        let disk = try FileSystem.fileSystemStatus(contents.stagingDirectory)
        guard let space = parts.transfers.space else { return disk }
        return disk.within(quota: space.quotaBytes, used: space.usedBytes)
    }
}

extension FileMode {
    /// The mode without its set-user-id bit, and without set-group-id if the group may execute (without that the bit
    /// means mandatory locking and no right). Nil if that is no change.
    static func withoutPrivileges(_ mode: UInt32) -> UInt32? {
        var cleared = mode & ~setUser
        if mode & groupExecute != 0 { cleared &= ~setGroup }
        return cleared == mode ? nil : cleared
    }
}

extension OpenNode.State {
    mutating func notePrivileges(_ row: ItemRow) {
        hasPrivileges = FileMode.withoutPrivileges(row.mode) != nil || row.hasCapability
    }
}

extension ItemRow {
    /// Whether who executes it gets rights that are its own.
    var hasCapability: Bool { localXattrs.contains { $0.name == Privileges.capability } }

    /// What the index would do, for an item that is gone from it.
    func applying(_ change: AttributeChange, now: Timestamp) -> ItemRow {
        var row = self
        if let mode = change.mode { row.mode = mode & FileMode.permissions }
        if let uid = change.uid { row.uid = uid }
        if let gid = change.gid { row.gid = gid }
        if let modified = change.modifiedAt { row.modifiedAt = modified }
        row.changedAt = now
        return row
    }
}
