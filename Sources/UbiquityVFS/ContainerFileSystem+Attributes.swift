internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
package import UbiquitySystem

// stat(2), and the calls that set attributes.
extension ContainerFileSystem {
    /// - Parameter handle: the open file's handle, if the request has one.
    package func attributes(of ino: UInt64, handle: UInt64? = nil) throws -> NodeAttributes {
        if let node = versionNodes.node(ino) { return try attributes(of: node, ino) }
        let (row, isOrphan) = try row(ino)
        // While a program writes to the file, the kernel asks for its attributes each time.
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

    /// The attributes of a file. While a program writes to it, and while it is deleted but open, the backing file has
    /// the current size and times.
    private func fileAttributes(of known: ItemRow, isOrphan: Bool) throws -> NodeAttributes {
        var row = known
        var live = row.isWriting || isOrphan ? try liveStatus(row.ino) : nil
        // Since the row was read, the writes may have been recorded and the last writer may have closed. Then the index
        // has the times again. That does not hold if recording failed, or if the file was not examined since the last
        // start.
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
            // Times set at the open are no program's change, and the close drops them.
            if isOrphan || isUnnoted { attributes.changedAt = max(row.changedAt, status.changedAt) }
            if inodes.accessTime(row.ino) == nil { attributes.accessedAt = attributes.modifiedAt }
        } else {
            // Writes to the file are not recorded yet: the kernel must ask again.
            attributes.isChanging = row.isWriting
            attributes.blocks = try blocks(of: row)
        }
        return attributes
    }

    /// A file that is opened and closed all the time may be closed at each look.
    private static let looksAtWriting = 4

    /// The number of the file's names.
    private func nameCount(of row: ItemRow) throws -> UInt32 {
        guard row.isLinked else { return 1 }
        // The file may wait for its place while hard links to it are placed.
        return UInt32(clamping: try index.peek { try $0.linkCount(of: row) } + (row.entry == nil ? 0 : 1))
    }

    /// Status of the backing file if it is complete and open, and whether it has changed since the index last recorded
    /// it.
    private func liveStatus(_ ino: UInt64) throws -> (FileStatus, mayBeMapped: Bool, isUnnoted: Bool)? {
        guard let state = openNodes.node(ino)?.state.withLock({ $0 }), let file = state.whole?.file else { return nil }
        let status = try file.status()
        return (status, state.mayBeMapped, state.isTouched || OpenNode.Stamp(status) != state.stamp)
    }

    /// Disk blocks of the content. A non-empty file reports at least 1, unless it is complete and all hole: GNU tar and
    /// others treat a file without blocks as all zeros and do not read it. An empty file reports 0: looking up its
    /// reserved blocks takes a third of a cold `stat`.
    private func blocks(of row: ItemRow) throws -> Int64 {
        guard row.size > 0 else { return 0 }
        guard row.contentState != .none, let content = row.content else { return 1 }
        let open = openFile(of: content, ino: row.ino)
        guard let status = try open?.status() ?? contents.status(of: content) else { return 1 }
        // Some file systems also report 0 blocks for a file that was just written.
        guard status.blocks == 0, status.size > 0, row.contentState == .complete else { return max(status.blocks, 1) }
        let file = try open ?? contents.open(content, writable: false)
        return try file.nextData(from: 0) == nil ? 0 : 1
    }

    /// The content's descriptor, if the file is open or was a moment ago. Opening it by path takes several times as
    /// long.
    func openFile(of content: ContentID, ino: UInt64) -> FileDescriptor? {
        if let file = idle.file(ino, content) { return file }
        return openNodes.node(ino)?.state.withLock { $0.whole?.id == content ? $0.whole?.file : nil }
    }

    /// The number of directories in it, counted again only after a change.
    private func directoryCount(in row: ItemRow) throws -> Int {
        let known = inodes.withNode(row.ino) { ($0.directoryCount, $0.listing) }
        if let count = known?.0 { return count }
        let count = try index.peek { try $0.directoryCount(in: row.key) }
        inodes.withNode(row.ino) { node in
            // A change that happened meanwhile may be missing from the count.
            if node.listing == known?.1 { node.directoryCount = count }
        }
        return count
    }

    // MARK: Changing

    /// - Parameter handle: the open file's handle, if the change has one (ftruncate).
    package func setAttributes(
        of ino: UInt64, _ changes: AttributeChanges, handle: UInt64? = nil, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        guard !isInVersions(ino) else { throw Errno.EPERM }
        guard let size = changes.size else { return .now(try setMetadata(of: ino, changes, caller)) }
        return try truncate(ino, to: size, handle: handle, caller).map { [self] in
            try setMetadata(of: ino, changes, caller)
        }
    }

    private func setMetadata(of ino: UInt64, _ changes: AttributeChanges, _ caller: Caller) throws -> NodeAttributes {
        // Earlier writes must be recorded before this change, under their own author.
        finishCloses(of: ino)
        let (row, isOrphan) = try row(ino)
        if isOrphan { try requireOpen(row) }
        if changes.dropsPrivileges, !mayDropPrivileges(of: row, caller) { throw Errno.EPERM }
        // One time for both: a program that sets both to the present expects them to be equal.
        let now = parts.timekeeper.now()
        let change = attributeChange(row, changes, caller, now)
        noteAccess(ino, changes, now)
        if let modified = change.modifiedAt, row.kind == .file { try setBackingTime(ino, modified) }
        // Setting only the access time also changes the status time.
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

    /// Throws ESTALE for a file that a remote change removed while no program had it open. The kernel knows it only by
    /// a name that now leads elsewhere or nowhere, and looks that up again. Whether a folder is open is not known.
    func requireOpen(_ orphan: ItemRow) throws {
        if orphan.kind == .file, orphan.entry != nil, openNodes.node(orphan.ino) == nil { throw Errno.ESTALE }
    }

    /// Whether the caller may drop privileges: the owner may, and so may a program about to write. The kernel does not
    /// say which of the two calls.
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
        // A new owner, and a truncation by an ordinary user, clear the set-user-id and set-group-id bits. With
        // HANDLE_KILLPRIV_V2 the kernel leaves that to the file system.
        let givesAway = changes.uid != nil || changes.gid != nil || changes.dropsPrivileges
            || (changes.size != nil && caller.uid != 0)
        if changes.mode == nil, givesAway, row.kind != .directory, let cleared = FileMode.withoutPrivileges(row.mode) {
            change.mode = cleared
        }
        return change
    }

    /// Records an explicitly set access time while the kernel knows the file. Reads do not change the access time, and
    /// it is not stored.
    private func noteAccess(_ ino: UInt64, _ changes: AttributeChanges, _ now: Timestamp) {
        guard let time = changes.accessedAt else { return }
        let accessed: Timestamp
        switch time {
        case .now: accessed = now
        case .at(let time): accessed = time
        }
        inodes.withNode(ino) { $0.accessedAt = accessed }
    }

    /// Sets the modification time of an open file's backing file too, because `stat` reads it there. This is not a
    /// change of the content.
    private func setBackingTime(_ ino: UInt64, _ time: Timestamp) throws {
        guard let node = openNodes.node(ino) else { return }
        try node.state.withLock { state throws(Errno) in
            guard let file = state.whole?.file else { return }
            // Writes that bypass this process may happen between the two looks; then the file counts as changed.
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

    /// Size and free space: the smaller of the disk that holds the contents and the account's quota.
    package func statistics() throws -> FileSystemStatus {
        let disk = try FileSystem.fileSystemStatus(contents.stagingDirectory)
        guard let space = parts.transfers.space else { return disk }
        return disk.within(quota: space.quotaBytes, used: space.usedBytes)
    }
}

extension FileMode {
    /// The mode without its set-user-id bit, and without set-group-id if the group may execute. (Without group execute
    /// that bit means mandatory locking.) Nil if nothing changes.
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
    /// Whether executing the file grants privileges of its own.
    var hasCapability: Bool { localXattrs.contains { $0.name == Privileges.capability } }

    /// Applies what the index would do, for an item that is gone from the index.
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
