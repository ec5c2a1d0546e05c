internal import Synchronization
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The attributes of items, as stat(2) shows them.
///
/// It has no state of its own. Every room that answers with attributes calls it. It calls `BackingFiles` for the size
/// and times of files that are being written.
final class Attributes: Room {
    let context: FileSystemContext
    private let backing: BackingFiles

    init(_ context: FileSystemContext, backing: BackingFiles) {
        self.context = context
        self.backing = backing
    }

    func of(_ ino: UInt64) throws -> NodeAttributes {
        let (row, isOrphan) = try context.row(ino)
        // While a program writes to the file, the kernel asks for its attributes each time.
        if row.contentState == .complete, !row.isWriting { inodes.withNode(ino) { $0.looks.add() } }
        return try of(row, isOrphan: isOrphan)
    }

    func of(_ row: ItemRow, isOrphan: Bool = false) throws -> NodeAttributes {
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
        let open = backing.openFile(of: content, ino: row.ino)
        guard let status = try open?.status() ?? contents.status(of: content) else { return 1 }
        // Some file systems also report 0 blocks for a file that was just written.
        guard status.blocks == 0, status.size > 0, row.contentState == .complete else { return max(status.blocks, 1) }
        let file = try open ?? contents.open(content, writable: false)
        return try file.nextData(from: 0) == nil ? 0 : 1
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

    /// The item's attributes, for an answer that makes the inode known to the kernel.
    func known(_ row: ItemRow) throws -> NodeAttributes {
        inodes.addLookup(row.ino)
        do { return try of(row) } catch {
            inodes.forget(row.ino, 1)
            throw error
        }
    }

    /// The same for a row that was read before the kernel counted as knowing the inode. The kernel got no invalidation
    /// for changes in between, so the row is read again.
    /// - Parameters:
    ///   - commits: `foreignCommits` before the row was read.
    ///   - again: reads the row once more.
    /// - Returns: nil if the name leads to another item by now.
    func known(_ row: ItemRow, since commits: UInt64, again: () throws -> ItemRow?) throws -> NodeAttributes? {
        inodes.addLookup(row.ino)
        do {
            guard inodes.foreignCommits.load(ordering: .acquiring) != commits else { return try of(row) }
            if let now = try again(), now.ino == row.ino { return try of(now) }
        } catch {
            inodes.forget(row.ino, 1)
            throw error
        }
        inodes.forget(row.ino, 1)
        return nil
    }

    func readLink(_ ino: UInt64) throws -> [UInt8] {
        let row = try context.row(ino).row
        guard row.kind == .symlink else { throw Errno.EINVAL }
        return row.linkTarget
    }

    /// Size and free space: the smaller of the disk that holds the contents and the account's quota.
    func statistics() throws -> FileSystemStatus {
        let disk = try FileSystem.fileSystemStatus(contents.stagingDirectory)
        guard let space = context.parts.transfers.space else { return disk }
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
    mutating func observePrivileges(_ row: ItemRow) {
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
