internal import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Open files without a name (O_TMPFILE). The index has no row for them. If such a file never gets a name, its content
// is removed with its inode, or at the next start.
extension ContainerFileSystem {
    /// Creates a file without a name in a directory and opens it.
    package func createUnnamed(parent: UInt64, mode: UInt32, flags: OpenFlags, caller: Caller) throws -> CreatedFile {
        guard !isInVersions(parent) else { throw Errno.EPERM }
        let new = try newItem(.file, in: parent, mode: mode, caller)
        let content = try newContent()
        let row: ItemRow
        do {
            let ino = UInt64(try index.newContentNumber())
            row = ItemRow(unnamed: new, content.id, ino: ino, now: parts.timekeeper.now())
        } catch {
            drop(content)
            throw error
        }
        inodes.addLookup(row.ino)
        inodes.withNode(row.ino) { $0.orphan = row }
        unnamed.withLock { $0.add(content.id, of: row.ino) }
        do {
            // Read the attributes after the open: the kernel may not cache them if it serves the file.
            let opened = try openNew(row, content, flags, isRecorded: false)
            do { return CreatedFile(attributes: try attributes(of: row, isOrphan: true), opened: opened) } catch {
                releaseNow(opened.handle)
                throw error
            }
        } catch {
            forget(row.ino, 1)
            throw error
        }
    }

    /// Names the file; from now on it is an ordinary file.
    func nameUnnamed(_ ino: UInt64, in parent: UInt64, _ name: ItemName) throws -> NodeAttributes {
        guard unnamed.withLock({ $0.beginNaming(ino) }) else { throw Errno.ENOENT }
        var isNamed = false
        defer { unnamed.withLock { $0.endNaming(ino, isNamed: isNamed) } }
        let node = openNodes.hold(ino)
        var isWatched = false
        defer { if isWatched { watchMapped() } else { openNodes.release(node) } }
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
            isWatched = state.writers == 0 && isWriting && mapped.add(node)
            return made
        }
        return try known(row)
    }

    /// Drops the content after the kernel has forgotten the inode: no program can name it any more.
    func dropUnnamed(_ ino: UInt64) {
        guard unnamed.withLock({ $0.has(ino) }), !inodes.isKnown(ino) else { return }
        if let content = unnamed.withLock({ $0.remove(ino) }) { drop(content) }
    }

    /// Drops the contents of all files without a name. For the end of the mount.
    package func endUnnamed() { unnamed.withLock { $0.removeAll() }.forEach(drop) }

    /// Whether the content belongs to a file without a name.
    package func isUnnamed(_ content: ContentID) -> Bool { unnamed.withLock { $0.has(content) } }

    /// Opens a file that has no name any more and that a program has open, through /proc/PID/fd.
    /// - Throws: `ESTALE` if its content is missing, or if a remote change replaced or removed the file. The kernel
    ///   then looks its path up again.
    func openOrphan(_ row: ItemRow, _ flags: OpenFlags) throws -> OpenedFile {
        guard row.entry == nil else { throw Errno.ESTALE }
        let node = openNodes.hold(row.ino)
        do {
            try node.state.withLock { state in
                guard var whole = state.whole else { throw Errno.ESTALE }
                if flags.writes {
                    try index.distrust(whole.id)
                    if !whole.isWritable {
                        whole.reader = whole.file
                        whole.file = try whole.file.reopenedForWriting()
                        whole.isWritable = true
                        state.whole = whole
                    }
                    if flags.contains(.truncate) {
                        try noteShortening(of: whole.id, whole.file, to: 0)
                        try whole.file.truncate(to: 0)
                    }
                    state.writers += 1
                }
            }
        } catch {
            openNodes.release(node)
            throw error
        }
        return handle(on: node, flags, partial: nil)
    }
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
