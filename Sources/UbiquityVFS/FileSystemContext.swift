internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The parts that all rooms of the file system use: those it was given, the inodes that the kernel knows or has open,
/// and the look-up of an item's row by its inode.
///
/// Every room calls it. It calls the index and the content store only.
final class FileSystemContext: Sendable {
    let parts: FileSystemParts
    let inodes = InodeTable()
    /// The inodes of `.versions` folders and their contents.
    let versionNodes = VersionNodes()
    let openNodes = OpenNodeTable()

    init(_ parts: FileSystemParts) { self.parts = parts }

    private var index: ItemIndex { parts.index }

    // MARK: Rows

    /// The item's row; if the item is deleted and the kernel still has it, its last row.
    func row(_ ino: UInt64) throws -> (row: ItemRow, isOrphan: Bool) {
        if let row = try index.row(ino: ino), !row.isDeleted { return (row, false) }
        if let orphan = inodes.orphan(ino) { return (orphan, true) }
        guard inodes.isKnown(ino) else { throw Errno.ESTALE }
        // The item may be leaving the index just now. Once the writer is free, its last row has been recorded.
        try index.write(.local) { _ in }
        if let row = try index.row(ino: ino), !row.isDeleted { return (row, false) }
        if let orphan = inodes.orphan(ino) { return (orphan, true) }
        throw Errno.ESTALE
    }

    /// The item's row in the index. Throws ESTALE if it is gone; then the kernel looks the path up again.
    func liveRow(_ ino: UInt64) throws -> ItemRow {
        guard let row = try index.row(ino: ino), !row.isDeleted else { throw Errno.ESTALE }
        return row
    }

    /// A directory that can hold entries.
    func directory(_ ino: UInt64) throws -> ItemRow {
        let (row, isOrphan) = try row(ino)
        guard row.kind == .directory else { throw Errno.ENOTDIR }
        guard !isOrphan else { throw Errno.ENOENT }
        return row
    }

    /// The row, updated for a placeholder whose last byte has just arrived. Programs read the bytes a moment before the
    /// index records completion.
    func finished(_ row: ItemRow) throws -> ItemRow {
        guard row.contentState == .partial else { return row }
        try parts.materializer.finishIfComplete(row.key)
        return try index.row(key: row.key) ?? row
    }

    /// Throws ESTALE for a file that a remote change removed while no program had it open. The kernel knows it only by
    /// a name that now leads elsewhere or nowhere, and looks that up again. Whether a folder is open is not known.
    func requireOpen(_ orphan: ItemRow) throws {
        if orphan.kind == .file, orphan.entry != nil, openNodes.node(orphan.ino) == nil { throw Errno.ESTALE }
    }

    // MARK: Items

    /// Owner and group of a new item. In a directory with the set-group-id bit it gets the directory's group.
    func newItem(_ kind: ItemKind, in parent: UInt64, mode: UInt32, _ caller: Caller) throws -> NewItem {
        let directory = try directory(parent)
        var mode = mode & FileMode.permissions
        var gid = caller.gid
        if directory.mode & FileMode.setGroup != 0 {
            gid = directory.gid
            if kind == .directory { mode |= FileMode.setGroup }
        }
        return NewItem(kind: kind, mode: mode, uid: caller.uid, gid: gid, process: caller.pid)
    }

    /// Clears privileges before a write: the file's capabilities, and for an ordinary user the set-user-id and
    /// set-group-id bits.
    func clearPrivileges(_ row: ItemRow, _ caller: Caller) throws {
        if row.hasCapability { try index.removeXattr(ino: row.ino, named: Privileges.capability) }
        if caller.uid != 0, let mode = FileMode.withoutPrivileges(row.mode) {
            _ = try index.setAttributes(ino: row.ino, AttributeChange(mode: mode))
        }
    }

    /// Discards a backing file that no item has any more; open handles can still use it.
    func drop(_ content: ContentID) {
        parts.contents.retire([content])
    }

    // MARK: Programs

    /// Whether the open only sniffs the beginning of the content.
    func isSniffing(_ flags: OpenFlags, _ caller: Caller) -> Bool {
        flags.contains(.noAccessTime) && !flags.writes && !flags.contains(.truncate)
            && !parts.noAccessTimeReaders.isOne(caller.pid)
    }
}

/// A part of the file system with state of its own. `FileSystemRooms` lists the rooms.
protocol Room: Sendable {
    var context: FileSystemContext { get }
}

extension Room {
    var index: ItemIndex { context.parts.index }
    var contents: ContentStore { context.parts.contents }
    var kernel: any KernelCache { context.parts.kernel }
    var logger: Logger { context.parts.logger }
    var inodes: InodeTable { context.inodes }
    var versionNodes: VersionNodes { context.versionNodes }
    var openNodes: OpenNodeTable { context.openNodes }

    /// Whether the inode is in a versions folder: then operations on it may have to wait, and the kernel caches
    /// nothing.
    func isInVersions(_ ino: UInt64) -> Bool { versionNodes.node(ino) != nil }
}
