internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Open files without a name (O_TMPFILE). The index has no row for them. If such a file never gets a name, its content
/// is removed with its inode, or at the next start.
///
/// It holds their contents by inode. `Namespace` calls it to name a file. It calls `WholeFiles` and `NewContents`.
final class UnnamedFiles: Room {
    let context: FileSystemContext
    private let openFiles: OpenFiles
    private let wholeFiles: WholeFiles
    private let newContents: NewContents
    private let attributes: Attributes
    private let state = Lock(UnnamedContents())

    init(
        _ context: FileSystemContext, openFiles: OpenFiles, wholeFiles: WholeFiles, newContents: NewContents,
        attributes: Attributes
    ) {
        self.context = context
        self.openFiles = openFiles
        self.wholeFiles = wholeFiles
        self.newContents = newContents
        self.attributes = attributes
    }

    /// Whether the inode is a file without a name.
    func has(_ ino: UInt64) -> Bool { state.withLock { $0.has(ino) } }

    /// Creates a file without a name in a directory and opens it.
    func create(parent: UInt64, mode: UInt32, flags: OpenFlags, caller: Caller) throws -> CreatedFile {
        guard !isInVersions(parent) else { throw Errno.EPERM }
        let new = try context.newItem(.file, in: parent, mode: mode, caller)
        let content = try newContents.make()
        let row: ItemRow
        do {
            let ino = UInt64(try index.newContentNumber())
            row = ItemRow(unnamed: new, content.id, ino: ino, now: context.parts.timekeeper.now())
        } catch {
            newContents.drop(content)
            throw error
        }
        inodes.addLookup(row.ino)
        inodes.withNode(row.ino) { $0.orphan = row }
        state.withLock { $0.add(content.id, of: row.ino) }
        do {
            // Read the attributes after the open: the kernel may not cache them if it serves the file.
            let opened = try wholeFiles.openNew(row, content, flags, isRecorded: false)
            do { return CreatedFile(attributes: try attributes.of(row, isOrphan: true), opened: opened) } catch {
                openFiles.releaseNow(opened.handle)
                throw error
            }
        } catch {
            inodes.forget(row.ino, 1)
            forget(row.ino)
            throw error
        }
    }

    /// Names the file; from now on it is an ordinary file.
    func name(_ ino: UInt64, in parent: UInt64, _ name: ItemName) throws -> NodeAttributes {
        guard state.withLock({ $0.beginNaming(ino) }) else { throw Errno.ENOENT }
        var isNamed = false
        defer { state.withLock { $0.endNaming(ino, isNamed: isNamed) } }
        let node = openNodes.hold(ino)
        var isWatched = false
        defer { if isWatched { openFiles.mapped.watch() } else { openNodes.release(node) } }
        let row = try node.state.withLock { state -> ItemRow in
            guard let file = state.whole?.file, var row = inodes.orphan(ino) else { throw Errno.ENOENT }
            let status = try file.status()
            row.size = status.size
            row.modifiedAt = status.modifiedAt
            // A program that has closed it may still write to it through a mapping.
            let isWriting = state.writers > 0 || state.mayBeMapped
            let made = try index.create(in: parent, named: name, NewItem(named: row, isWriting: isWriting))
            isNamed = true
            state.isRecorded = isWriting
            state.isTouched = false
            state.stamp = OpenNode.Stamp(status)
            isWatched = state.writers == 0 && isWriting && openFiles.mapped.add(node)
            return made
        }
        return try attributes.known(row)
    }

    /// Drops the content after the kernel has forgotten the inode: no program can name it any more.
    func forget(_ ino: UInt64) {
        guard state.withLock({ $0.has(ino) }), !inodes.isKnown(ino) else { return }
        if let content = state.withLock({ $0.remove(ino) }) { context.drop(content) }
    }

    /// Drops the contents of all files without a name. For the end of the mount.
    func end() { state.withLock { $0.removeAll() }.forEach(context.drop) }

    /// Whether the content belongs to a file without a name.
    func has(_ content: ContentID) -> Bool { state.withLock { $0.has(content) } }
}

extension ItemRow {
    fileprivate init(unnamed new: NewItem, _ content: ContentID, ino: UInt64, now: Timestamp) {
        self.init(
            key: ItemKey(Int64(ino)), ino: ino, id: ItemID(high: 0, low: 0), kind: .file, mode: new.mode, uid: new.uid,
            gid: new.gid, size: 0, createdAt: now, modifiedAt: now, changedAt: now, linkTarget: [], xattrs: [],
            localXattrs: [], entry: nil, version: nil, content: content, contentState: .complete, flags: [], dirty: [],
            dirtyOrder: 0, dirtyBase: .zero, dirtyAt: now, generation: 0, nextVersion: nil, usedAt: now)
    }
}

extension NewItem {
    fileprivate init(named row: ItemRow, isWriting: Bool) {
        self.init(
            kind: .file, mode: row.mode, uid: row.uid, gid: row.gid, content: row.content, isWriting: isWriting)
        unnamed = row
    }
}
