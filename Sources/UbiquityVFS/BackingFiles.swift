internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The backing files of open inodes: opens the file of a complete content, and records a writer in the index.
///
/// It has no state of its own; the file is in the inode's `OpenNode`. `WholeFiles`, `Truncation`, `FileIO` and
/// `Namespace` call it. It calls the content store, the index, `ContentSync` and `WriteRecorder`.
final class BackingFiles: Room {
    let context: FileSystemContext
    private let contentSync: ContentSync
    private let recorder: WriteRecorder
    private let service: FileService

    init(_ context: FileSystemContext, contentSync: ContentSync, recorder: WriteRecorder, service: FileService) {
        self.context = context
        self.contentSync = contentSync
        self.recorder = recorder
        self.service = service
    }

    /// Attempts of an open when the content is exchanged between two steps.
    private static let openAttempts = 16

    /// Gives the node its backing file, and records a writer in the index.
    /// - Returns: false if the content is not complete.
    func attach(_ node: OpenNode, writes: Bool) throws -> Bool {
        for _ in 0..<Self.openAttempts {
            let isAttached: Bool? = try node.state.withLock { state in
                // Read the row under the lock: a close may just be recorded, after which the index counts no writer.
                let row = try context.liveRow(node.ino)
                guard row.contentState == .complete, let content = row.content else { return nil }
                do {
                    try open(content, of: row, writable: writes, &state)
                } catch where Errno(describing: error) == .ENOENT {
                    // Either another content has replaced it since the row was read, or the item exists and its content
                    // file is missing.
                    guard try context.liveRow(node.ino).content == content else { return false }
                    throw UbiquityError(
                        .damaged, "the content file is missing on this device",
                        remedy: "run 'ubiquity doctor': it restores the content if it finds a copy")
                }
                return try !writes || addWriter(node, content, row, &state)
            }
            guard let isAttached else { return false }
            if isAttached { return true }
        }
        throw Errno.ESTALE
    }

    /// Opens the backing file, or reopens it for writing.
    func open(_ content: ContentID, of row: ItemRow, writable: Bool, _ state: inout OpenNode.State) throws {
        if let whole = state.whole, whole.id == content, whole.isWritable || !writable { return }
        // Handles that the kernel serves would keep the old content. Nothing exchanges the content of an open inode; if
        // it should happen, refusing loses nothing.
        if case .kernel(_, let served) = state.service, served != content { throw Errno.EBUSY }
        let reader = state.whole.flatMap { $0.id == content ? $0.file : nil } ?? service.idle.file(row.ino, content)
        if !writable, let reader {
            state.whole = OpenNode.Whole(file: reader, id: content, isWritable: false)
        } else {
            state.whole = OpenNode.Whole(
                file: try contents.open(content, writable: writable), id: content, isWritable: writable,
                reader: reader)
        }
        state.observePrivileges(row)
    }

    /// - Returns: false if the content was exchanged before the index recorded the writer; the caller tries again.
    private func addWriter(
        _ node: OpenNode, _ content: ContentID, _ known: ItemRow, _ state: inout OpenNode.State
    ) throws -> Bool {
        if !state.isRecorded {
            if let file = state.whole?.file { try bringToDisk(content, of: node.ino, file) }
            // The last writer's changes are not recorded yet (`unnoted`). This writer records them, with the file's
            // times.
            let isUnnoted = known.isWriting
            // From now on `stat` shows the backing file's times. They must not jump, even if this process dies here. If
            // they already match, leave them, so that the change time stays.
            if !isUnnoted, let file = state.whole?.file, try file.status().modifiedAt != known.modifiedAt {
                try file.setTimes(accessed: nil, modified: known.modifiedAt)
            }
            let row = try index.beginWriting(ino: node.ino)
            guard row.content == content, let file = state.whole?.file else {
                _ = try index.noteWriting(
                    ino: node.ino, changed: false, size: row.size, modifiedAt: row.modifiedAt, stillOpen: false)
                state.whole = nil
                return false
            }
            state.isRecorded = true
            state.isTouched = isUnnoted
            state.unrest = nil
            do {
                if !isUnnoted, row.modifiedAt != known.modifiedAt {
                    try file.setTimes(accessed: nil, modified: row.modifiedAt)
                }
                state.stamp = OpenNode.Stamp(try file.status())
            } catch {
                // No later close would record that the file is no longer written.
                if state.writers == 0, !state.mayBeMapped { recorder.recordLastClose(node, &state) }
                throw error
            }
        }
        state.writers += 1
        return true
    }

    /// Flushes a downloaded content before a program writes to it. After a power loss, the program's bytes could not be
    /// told from bytes that never reached the disk.
    func bringToDisk(_ content: ContentID, of ino: UInt64, _ file: FileDescriptor) throws {
        let row = try context.liveRow(ino)
        guard row.content == content, !row.dirty.contains(.content), !row.isWriting,
            try index.peek({ try $0.isUnsynced(content) })
        else { return }
        // After a failed sync the kernel treats the lost pages as written.
        try contentSync.requireSyncs(of: content)
        try contentSync.rememberingFailure(of: content) { () throws(Errno) in try file.syncData() }
        try contents.syncName(of: content)
        try index.write(.local) { try $0.markSynced([content]) }
    }

    /// The content's descriptor, if the file is open or was a moment ago. Opening it by path takes several times as
    /// long.
    func openFile(of content: ContentID, ino: UInt64) -> FileDescriptor? {
        if let file = service.idle.file(ino, content) { return file }
        return openNodes.node(ino)?.state.withLock { $0.whole?.id == content ? $0.whole?.file : nil }
    }
}
