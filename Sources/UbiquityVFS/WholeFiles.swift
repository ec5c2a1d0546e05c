internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Opens files whose content is on this device.
///
/// It has no state of its own. `FileOpening`, `Truncation`, `Namespace` and `UnnamedFiles` call it. It calls
/// `BackingFiles`, `OpenFiles` and `ContentSync`.
final class WholeFiles: Room {
    let context: FileSystemContext
    private let openFiles: OpenFiles
    private let closes: DelayedCloses
    private let backing: BackingFiles
    private let contentSync: ContentSync
    private let recorder: WriteRecorder

    init(
        _ context: FileSystemContext, openFiles: OpenFiles, closes: DelayedCloses, backing: BackingFiles,
        contentSync: ContentSync, recorder: WriteRecorder
    ) {
        self.context = context
        self.openFiles = openFiles
        self.closes = closes
        self.backing = backing
        self.contentSync = contentSync
        self.recorder = recorder
    }

    /// Opens a file whose content is complete; nil if it is not.
    func openWhole(_ ino: UInt64, _ flags: OpenFlags) throws -> OpenedFile? {
        let node = openNodes.hold(ino)
        do {
            guard try backing.attach(node, writes: flags.writes) else {
                openNodes.release(node)
                return nil
            }
        } catch {
            openNodes.release(node)
            throw error
        }
        return try keepingPromise(openFiles.handle(on: node, flags, partial: nil), flags)
    }

    /// Opens a file whose content is complete, or whose last bytes are just entering the index; nil otherwise.
    func openJustCome(_ row: ItemRow, _ flags: OpenFlags) throws -> OpenedFile? {
        try hasJustCome(row) ? openWhole(row.ino, flags) : nil
    }

    /// If the disk is full, the item stays a placeholder.
    func hasJustCome(_ row: ItemRow) -> Bool { (try? context.finished(row))?.contentState == .complete }

    /// Whether a background reader opens a file whose content is not on this device.
    func refusesDownload(_ ino: UInt64, _ flags: OpenFlags, _ caller: Caller) throws -> Bool {
        guard !flags.contains(.truncate) else { return false }
        if isInVersions(ino) {
            return context.isSniffing(flags, caller) || context.parts.backgroundReaders.isOne(caller.pid)
        }
        guard let row = try index.row(ino: ino), row.contentState != .complete, row.size > 0,
            context.isSniffing(flags, caller) || context.parts.backgroundReaders.isOne(caller.pid)
        else { return false }
        return !hasJustCome(row)
    }

    /// - Parameter isRecorded: whether the index has recorded the writer.
    func openNew(
        _ row: ItemRow, _ content: NewContent, _ flags: OpenFlags, isRecorded: Bool = true
    ) throws -> OpenedFile {
        let node = openNodes.hold(row.ino)
        try node.state.withLock { state throws(Errno) in
            state.whole = OpenNode.Whole(
                file: content.file, id: content.id, isWritable: true, reader: content.reader)
            state.isNameSynced = content.isNameSynced
            state.registered = content.backing
            state.observePrivileges(row)
            guard flags.writes else { return }
            state.writers += 1
            state.isRecorded = isRecorded
            // A deleted name that was created again gets a version from its first sync on.
            state.awaitsFirstRecord = isRecorded && row.version == nil && !row.isFresh
            try content.file.setTimes(accessed: nil, modified: row.modifiedAt)
            state.stamp = OpenNode.Stamp(try content.file.status())
        }
        return openFiles.handle(on: node, flags, partial: nil, isNew: true)
    }

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
                        try contentSync.prepareShortening(of: whole.id, whole.file, to: 0)
                        try whole.file.truncate(to: 0)
                    }
                    state.writers += 1
                }
            }
        } catch {
            openNodes.release(node)
            throw error
        }
        return openFiles.handle(on: node, flags, partial: nil)
    }

    /// Keeps the promise of O_SYNC and O_DSYNC. Such a program calls no `fsync`: from its first write on, the file
    /// survives a power loss under its name.
    func keepingPromise(_ opened: OpenedFile, _ flags: OpenFlags) throws -> OpenedFile {
        guard flags.writes, flags.contains(.dataSync) else { return opened }
        do {
            let node = try openFiles.object(opened.handle).node
            try beginWritingThrough(node)
            if let id = node.state.withLock({ $0.isNameSynced ? nil : $0.whole?.id }) {
                try contents.syncName(of: id)
                node.state.withLock { $0.isNameSynced = $0.whole?.id == id }
            }
            try index.makeChangesDurable()
            return opened
        } catch {
            closes.release(opened.handle)
            throw error
        }
    }

    /// Drops the journal of an earlier state. After a power loss, recovery would lay it over later writes whose times
    /// may not be on disk.
    private func beginWritingThrough(_ node: OpenNode) throws {
        let whole = node.state.withLock { state in
            state.writesThrough = true
            return state.whole
        }
        guard let whole else { return }
        let isReplacement = index.isReplacement(whole.id)
        guard isReplacement || contents.journal?.mark(of: whole.id) != nil else { return }
        // After a failed sync the next one can succeed without having written the data. The journal is then the only
        // copy left.
        try contentSync.requireSyncs(of: whole.id)
        try contentSync.syncContent(of: whole, node, try whole.file.status())
        if isReplacement { try index.forgetReplacements([whole.id]) }
    }

    // MARK: Retried records

    /// Records the files whose last close could not be recorded.
    func retryRecords() {
        for ino in recorder.removeUnrecorded() {
            do { try recordAgain(ino) } catch {
                logger.error(
                    "still cannot record the last writes to a file", metadata: ["inode": "\(ino)", "error": "\(error)"])
                recorder.retryLater(ino)
            }
        }
    }

    /// Opens the file as a writer and closes it, which records its state.
    private func recordAgain(_ ino: UInt64) throws {
        guard let row = try index.row(ino: ino), row.isWriting, let opened = try openWhole(ino, .writeOnly) else {
            return
        }
        try openFiles.object(opened.handle).node.state.withLock { $0.isTouched = true }
        openFiles.releaseNow(opened.handle)
    }

    /// Adopts files that were open for writing when the last process died and that programs still write to, through
    /// handles or mappings of the dead mount. Call once, before any file is opened.
    func adoptWriters() throws {
        for row in try index.interruptedWriters() {
            guard let content = row.content, row.contentState == .complete, !row.isDeleted else { continue }
            let node = openNodes.hold(row.ino)
            try node.state.withLock { state in
                try backing.open(content, of: row, writable: false, &state)
                state.isRecorded = true
                state.mayBeMapped = true
                state.isAdopted = true
                // The index has the state from before the process died. A page that a program has been storing to since
                // then changes no time until it is written back.
                state.isTouched = true
                state.stamp = try state.whole.map { OpenNode.Stamp(try $0.file.status()) }
                try state.whole?.file.startWriteback()
                _ = openFiles.mapped.add(node)
            }
        }
        openFiles.mapped.watch()
    }
}
