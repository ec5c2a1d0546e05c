internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Makes files shorter or longer. Emptying a file downloads nothing.
///
/// It has no state of its own. `FileOpening` calls it for O_TRUNC, `AttributeSetter` for truncate(2). It calls
/// `WholeFiles`, `BackingFiles`, `ContentSync` and `WriteRecorder`.
final class Truncation: Room {
    let context: FileSystemContext
    private let openFiles: OpenFiles
    private let wholeFiles: WholeFiles
    private let closes: DelayedCloses
    private let backing: BackingFiles
    private let contentSync: ContentSync
    private let recorder: WriteRecorder
    private let newContents: NewContents
    private let arriving: ArrivingContents
    private let waitingCalls: WaitingCalls

    init(
        _ context: FileSystemContext, openFiles: OpenFiles, wholeFiles: WholeFiles, closes: DelayedCloses,
        backing: BackingFiles, contentSync: ContentSync, recorder: WriteRecorder, newContents: NewContents,
        arriving: ArrivingContents, waitingCalls: WaitingCalls
    ) {
        self.context = context
        self.openFiles = openFiles
        self.wholeFiles = wholeFiles
        self.closes = closes
        self.backing = backing
        self.contentSync = contentSync
        self.recorder = recorder
        self.newContents = newContents
        self.arriving = arriving
        self.waitingCalls = waitingCalls
    }

    /// Opens a file and empties it. The old content is not needed, so nothing is downloaded.
    func openTruncating(_ row: ItemRow, _ flags: OpenFlags, _ caller: Caller) throws -> OpenedFile {
        let node = openNodes.hold(row.ino)
        do {
            try context.clearPrivileges(row, caller)
            try node.state.withLock { state in
                try empty(node, &state, isWriter: true)
                state.writers += 1
            }
        } catch {
            openNodes.release(node)
            throw error
        }
        inodes.withNode(row.ino) { $0.pages = nil }
        return try wholeFiles.keepingPromise(openFiles.handle(on: node, flags, partial: nil), flags)
    }

    /// The same for a read-only open: the kernel has checked that the caller may write.
    func openTruncated(_ row: ItemRow, _ flags: OpenFlags, _ caller: Caller) throws -> OpenedFile {
        try context.clearPrivileges(row, caller)
        try truncateToNothing(row.ino)
        guard let opened = try wholeFiles.openWhole(row.ino, flags) else { throw Errno.ESTALE }
        return opened
    }

    /// Empties a content. A complete content is emptied in place, because others may have it open. A placeholder, and a
    /// content whose fsync failed, get a new backing file.
    private func empty(_ node: OpenNode, _ state: inout OpenNode.State, isWriter: Bool) throws {
        let row = try context.liveRow(node.ino)
        // Handles that the kernel serves keep their backing file, even one whose fsync failed.
        guard row.contentState == .complete, let content = row.content,
            state.service.backing != nil || contents.failure(of: content) == nil
        else { return try putFreshContent(node, &state, isWriter: isWriter) }
        try backing.open(content, of: row, writable: true, &state)
        if !state.isRecorded {
            if let file = state.whole?.file { try backing.bringToDisk(content, of: node.ino, file) }
            guard try index.beginWriting(ino: node.ino).content == content else { throw Errno.ESTALE }
            state.isRecorded = true
        }
        do {
            guard let file = state.whole?.file else { throw Errno.EIO }
            try contentSync.prepareShortening(of: content, file, to: 0)
            try file.truncate(to: 0)
        } catch {
            // No later close would record that the file is no longer written.
            if state.writers == 0, !state.mayBeMapped { recorder.recordLastClose(node, &state) }
            throw error
        }
        state.isTouched = true
        if !isWriter, state.writers == 0, !state.mayBeMapped { recorder.recordLastClose(node, &state) }
    }

    private func putFreshContent(_ node: OpenNode, _ state: inout OpenNode.State, isWriter: Bool) throws {
        guard state.service.backing == nil else { throw Errno.EBUSY }
        let id = try newContents.nextNumber()
        let file = try contents.create(id)
        let replaced: (before: ItemRow, after: ItemRow)
        do {
            let writes = isWriter || state.writers > 0
            replaced = try index.replaceContent(ino: node.ino, with: id, isWriting: writes)
            state.isRecorded = writes
        } catch {
            context.drop(id)
            throw error
        }
        if let old = replaced.before.content { context.drop(old) }
        state.whole = OpenNode.Whole(file: file, id: id, isWritable: true)
        state.isTouched = false
        state.unrest = nil
        state.observePrivileges(replaced.after)
        do {
            try file.setTimes(accessed: nil, modified: replaced.after.modifiedAt)
            state.stamp = OpenNode.Stamp(try file.status())
        } catch {
            // No later close would record that the file is no longer written.
            if state.isRecorded, state.writers == 0, !state.mayBeMapped { recorder.recordLastClose(node, &state) }
            throw error
        }
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
        closes.finish(of: ino)
        let (row, isOrphan) = try context.row(ino)
        guard row.kind == .file else { throw row.kind == .directory ? Errno.EISDIR : Errno.EINVAL }
        if isOrphan { return .now(try resizeAndClose(wholeFiles.openOrphan(row, .writeOnly), to: size)) }
        if size == 0 {
            try truncateToNothing(ino)
            return .now(())
        }
        if let opened = try wholeFiles.openWhole(ino, .writeOnly) { return .now(try resizeAndClose(opened, to: size)) }
        if row.size > 0, context.parts.backgroundReaders.isOne(caller.pid) {
            guard let opened = try wholeFiles.openJustCome(row, .writeOnly) else { throw Errno.EDEADLK }
            return .now(try resizeAndClose(opened, to: size))
        }
        // Hold the node now, so that the downloaded content is not evicted before the open.
        let node = openNodes.hold(ino)
        let work: Answer<Void> = .later { [self] in
            defer { openNodes.release(node) }
            try await arriving.materialize(ino)
            guard let opened = try wholeFiles.openWhole(ino, .writeOnly) else { throw Errno.ESTALE }
            try resizeAndClose(opened, to: size)
        }
        return waitingCalls.watching(work, ino)
    }

    /// Nil if the handle is no writer yet: then the file is truncated by its inode, after a wait for the content.
    private func writer(_ handle: UInt64) throws -> (OpenNode, FileDescriptor)? {
        let open = try openFiles.object(handle)
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
        defer { closes.release(opened.handle) }
        let node = try openFiles.object(opened.handle).node
        if let file = node.state.withLock({ $0.whole?.file }) { try resize(node, file, to: size) }
    }

    private func resize(_ node: OpenNode, _ file: FileDescriptor, to size: Int64) throws {
        try contentSync.prepareShortening(of: node.state.withLock { $0.whole?.id }, file, to: size)
        try file.truncate(to: size)
        node.state.withLock { $0.isTouched = true }
    }
}
