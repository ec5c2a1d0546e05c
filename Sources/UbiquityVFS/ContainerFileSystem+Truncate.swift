internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Making files shorter or longer.
extension ContainerFileSystem {
    /// Opens a file and empties it. The old content is not needed, so nothing is downloaded.
    func openTruncating(_ row: ItemRow, _ flags: OpenFlags, _ caller: Caller) throws -> OpenedFile {
        let node = openNodes.hold(row.ino)
        do {
            try clearPrivileges(row, caller)
            try node.state.withLock { state in
                try empty(node, &state, isWriter: true)
                state.writers += 1
            }
        } catch {
            openNodes.release(node)
            throw error
        }
        inodes.withNode(row.ino) { $0.pages = nil }
        return try keepingPromise(handle(on: node, flags, partial: nil), flags)
    }

    /// The same for a read-only open: the kernel has checked that the caller may write.
    func openTruncated(_ row: ItemRow, _ flags: OpenFlags, _ caller: Caller) throws -> OpenedFile {
        try clearPrivileges(row, caller)
        try truncateToNothing(row.ino)
        guard let opened = try openWhole(row.ino, flags) else { throw Errno.ESTALE }
        return opened
    }

    /// Empties a content. A complete content is emptied in place, because others may have it open. A placeholder, and a
    /// content whose fsync failed, get a new backing file.
    private func empty(_ node: OpenNode, _ state: inout OpenNode.State, isWriter: Bool) throws {
        let row = try liveRow(node.ino)
        // Handles that the kernel serves keep their backing file, even one whose fsync failed.
        guard row.contentState == .complete, let content = row.content,
            state.service.backing != nil || contents.failure(of: content) == nil
        else { return try putFreshContent(node, &state, isWriter: isWriter) }
        try open(content, of: row, writable: true, &state)
        if !state.isRecorded {
            if let file = state.whole?.file { try bringToDisk(content, of: node.ino, file) }
            guard try index.beginWriting(ino: node.ino).content == content else { throw Errno.ESTALE }
            state.isRecorded = true
        }
        do {
            guard let file = state.whole?.file else { throw Errno.EIO }
            try noteShortening(of: content, file, to: 0)
            try file.truncate(to: 0)
        } catch {
            // No later close would record that the file is no longer written.
            if state.writers == 0, !state.mayBeMapped { noteLastClose(node, &state) }
            throw error
        }
        state.isTouched = true
        if !isWriter, state.writers == 0, !state.mayBeMapped { noteLastClose(node, &state) }
    }

    private func putFreshContent(_ node: OpenNode, _ state: inout OpenNode.State, isWriter: Bool) throws {
        guard state.service.backing == nil else { throw Errno.EBUSY }
        let id = try contentNumbers.take(from: index)
        let file = try contents.create(id)
        let replaced: (before: ItemRow, after: ItemRow)
        do {
            let writes = isWriter || state.writers > 0
            replaced = try index.replaceContent(ino: node.ino, with: id, isWriting: writes)
            state.isRecorded = writes
        } catch {
            drop(id)
            throw error
        }
        if let old = replaced.before.content { drop(old) }
        state.whole = OpenNode.Whole(file: file, id: id, isWritable: true)
        state.isTouched = false
        state.unrest = nil
        state.notePrivileges(replaced.after)
        do {
            try file.setTimes(accessed: nil, modified: replaced.after.modifiedAt)
            state.stamp = OpenNode.Stamp(try file.status())
        } catch {
            // No later close would record that the file is no longer written.
            if state.isRecorded, state.writers == 0, !state.mayBeMapped { noteLastClose(node, &state) }
            throw error
        }
    }

    /// Discards a backing file that no item has any more; open handles can still use it.
    func drop(_ content: ContentID) {
        contents.retire([content])
    }

    /// truncate(2) and ftruncate(2). Truncating to zero downloads nothing; otherwise the complete content is needed.
    func truncate(
        _ ino: UInt64, to size: Int64, handle: UInt64?, _ caller: Caller
    ) throws -> Answer<Void> {
        guard size >= 0 else { throw Errno.EINVAL }
        guard size <= Limits.maximumFileSize else { throw Errno.EFBIG }
        if let handle, let (node, file) = try writer(handle) {
            // An open file can be truncated as long as it is open, also without a name.
            try resize(node, file, to: size)
            return .now(())
        }
        finishCloses(of: ino)
        let (row, isOrphan) = try row(ino)
        guard row.kind == .file else { throw row.kind == .directory ? Errno.EISDIR : Errno.EINVAL }
        if isOrphan { return .now(try resizeAndClose(openOrphan(row, .writeOnly), to: size)) }
        if size == 0 {
            try truncateToNothing(ino)
            return .now(())
        }
        if let opened = try openWhole(ino, .writeOnly) { return .now(try resizeAndClose(opened, to: size)) }
        if row.size > 0, parts.backgroundReaders.isOne(caller.pid) {
            guard let opened = try openJustCome(row, .writeOnly) else { throw Errno.EDEADLK }
            return .now(try resizeAndClose(opened, to: size))
        }
        // Hold the node now, so that the downloaded content is not evicted before the open.
        let node = openNodes.hold(ino)
        let work: Answer<Void> = .later { [self] in
            defer { openNodes.release(node) }
            try await arriving.materialize(ino)
            guard let opened = try openWhole(ino, .writeOnly) else { throw Errno.ESTALE }
            try resizeAndClose(opened, to: size)
        }
        return waitingCalls.watching(work, ino)
    }

    /// Nil if the handle is no writer yet: then the file is truncated by its inode, after a wait for the content.
    private func writer(_ handle: UInt64) throws -> (OpenNode, FileDescriptor)? {
        let open = try files.object(handle)
        if let late = open.late, !late.isWriting { return nil }
        return open.node.state.withLock { $0.whole.map { (open.node, $0.file) } }
    }

    private func truncateToNothing(_ ino: UInt64) throws {
        let node = openNodes.hold(ino)
        defer { openNodes.release(node) }
        try node.state.withLock { state in try empty(node, &state, isWriter: false) }
        inodes.withNode(ino) { $0.pages = nil }
    }

    private func resizeAndClose(_ opened: OpenedFile, to size: Int64) throws {
        defer { release(opened.handle) }
        let node = try files.object(opened.handle).node
        if let file = node.state.withLock({ $0.whole?.file }) { try resize(node, file, to: size) }
    }

    private func resize(_ node: OpenNode, _ file: FileDescriptor, to size: Int64) throws {
        try noteShortening(of: node.state.withLock { $0.whole?.id }, file, to: size)
        try file.truncate(to: size)
        node.state.withLock { $0.isTouched = true }
    }

    /// Clears privileges before a write: the file's capabilities, and for an ordinary user the set-user-id and
    /// set-group-id bits.
    func clearPrivileges(_ row: ItemRow, _ caller: Caller) throws {
        if row.hasCapability { try index.removeXattr(ino: row.ino, named: Privileges.capability) }
        if caller.uid != 0, let mode = FileMode.withoutPrivileges(row.mode) {
            _ = try index.setAttributes(ino: row.ino, AttributeChange(mode: mode))
        }
    }
}
