internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Makes contents durable: by a sync of the content's file, or of the content journal with a copy of a small content.
///
/// It holds the thread that syncs the index beside a content. The façade calls it for fsync(2); `BackingFiles` and
/// `Truncation` before a content changes. It calls the content store, the index, `WriteRecorder` and `DelayedCloses`.
final class ContentSync: Room {
    let context: FileSystemContext
    private let openFiles: OpenFiles
    private let closes: DelayedCloses
    private let recorder: WriteRecorder
    private let newContents: NewContents
    private let syncThread: SideThread

    init(
        _ context: FileSystemContext, openFiles: OpenFiles, closes: DelayedCloses, recorder: WriteRecorder,
        newContents: NewContents
    ) {
        self.context = context
        self.openFiles = openFiles
        self.closes = closes
        self.recorder = recorder
        self.newContents = newContents
        syncThread = SideThread(context.parts.syncing)
    }

    /// Makes content and names durable. A program that gets success keeps its data through a power loss.
    func sync(_ handle: UInt64) throws {
        let file = try openFiles.object(handle)
        guard let whole = file.node.state.withLock({ $0.whole }) else { return try index.makeChangesDurable() }
        try requireSyncs(of: whole.id)
        let before = try whole.file.status()
        let isReplacement = index.isReplacement(whole.id)
        // Writes from here on are not part of this call.
        try file.node.state.withLock { state in
            if state.leavesRecordToClose(), closes.recordSoon(file.node.ino) { return }
            try recorder.record(file.node, &state, stillOpen: state.writers > 0 || state.mayBeMapped)
        }
        if isReplacement { return try syncReplacement(whole, file.node, before) }
        if !file.node.state.withLock({ $0.writesThrough }), try syncInJournal(whole, before) {
            // Another handle may have begun to write past the journal meanwhile.
            guard file.node.state.withLock({ $0.writesThrough }) else { return }
            return try syncContent(of: whole, file.node, before)
        }
        guard !index.hasDurableChanges else { return try syncContent(of: whole, file.node, before) }
        // Index or content may reach the disk without the other, for instance when another file's fsync flushes the
        // index. With one flush for both, an fsync takes hardly longer than that of the content alone.
        if context.parts.sharesFlushes,
            try index.makeDurable(
                byFlushOf: before.device, start: { try sendContent(of: whole) },
                sync: { try syncContent(of: whole, file.node, before) })
        {
            return
        }
        // Flush both at the same time: that takes 0.8 of the time of one after the other (measured).
        try syncThread.run { try syncContent(of: whole, file.node, before) } beside: { [index] in
            try index.makeDurable()
        }
    }

    /// Throws the error of an earlier failed sync of the content.
    func requireSyncs(of id: ContentID) throws {
        if let failure = contents.failure(of: id) { throw failure }
    }

    /// Syncs a content that has replaced another. It flushes the content, then drops the record of the old one, then
    /// flushes the index. So whenever power fails, one of the two exists, and after the sync the new one does.
    private func syncReplacement(_ whole: OpenNode.Whole, _ node: OpenNode, _ before: FileStatus) throws {
        try syncContent(of: whole, node, before)
        try index.forgetReplacements([whole.id])
        try index.makeChangesDurable()
    }

    func rememberingFailure(of id: ContentID, _ body: () throws(Errno) -> Void) throws {
        do throws(Errno) { try body() } catch {
            contents.noteFailedSync(id, UbiquityError(error, doing: "sync the content", at: contents.path(of: id)))
            throw error
        }
    }

    private func sendContent(of whole: OpenNode.Whole) throws {
        try rememberingFailure(of: whole.id) { () throws(Errno) in try whole.file.startWriting() }
    }

    func syncContent(of whole: OpenNode.Whole, _ node: OpenNode, _ before: FileStatus) throws {
        let kept = contents.journal?.mark(of: whole.id)
        try rememberingFailure(of: whole.id) { () throws(Errno) in try whole.file.syncData() }
        let (isFirst, needsName) = node.state.withLock { state in
            guard state.whole?.id == whole.id else { return (false, false) }
            defer { state.isSynced = true }
            return (!state.isSynced, !state.isNameSynced)
        }
        if isFirst { newContents.observeSync(now: context.parts.timekeeper.now()) }
        if needsName {
            try contents.syncName(of: whole.id)
            node.state.withLock { $0.isNameSynced = $0.whole?.id == whole.id }
        }
        let isWhollyThere = node.state.withLock { $0.whole?.id == whole.id && $0.isNameSynced }
        if let kept, isWhollyThere { try dropCopy(whole.id, kept) }
        contents.noteSynced(whole.id, before)
    }

    /// Makes names durable. The index has the names of all directories.
    func syncNames() throws { try index.makeChangesDurable() }

    // MARK: The journal

    /// Syncs a content that suits the journal, together with the index.
    /// - Returns: false if it does not suit or the sync fails: then the caller must sync the content file.
    func syncInJournal(_ whole: OpenNode.Whole, _ before: FileStatus) throws -> Bool {
        guard let journal = contents.journal, try journal.keep(whole.id, whole.file) else { return false }
        do {
            // One sync for both, which share a file.
            let isThere = try index.hasDurableChanges ? false : index.makeDurableByJournal()
            if !isThere { try journal.sync() }
        } catch {
            // Whether journal or index failed shows in the other way of syncing. The journal still has the content of
            // an earlier sync.
            logger.error("cannot sync a content in the journal; syncing its file", metadata: ["reason": "\(error)"])
            journal.noteFailure()
            return false
        }
        contents.noteSynced(whole.id, before)
        return true
    }

    /// Drops the journal's copy after the content file and its name are on disk.
    func dropCopy(_ id: ContentID, _ mark: UInt64) throws {
        try makingSpace { journal throws(Errno) in try journal.forget(id, mark) }
    }

    /// Prepares the shortening of a file. After a sync its remaining bytes are promised; a file truncated to zero has
    /// none.
    func prepareShortening(of id: ContentID?, _ file: FileDescriptor, to size: Int64) throws {
        guard let id else { return }
        let isReplacement = index.isReplacement(id), mark = contents.journal?.mark(of: id)
        guard isReplacement || mark != nil, try file.status().size > size else { return }
        // A replacement that is shorter than recorded would be taken for one that did not reach the disk.
        if isReplacement { try bringReplacementToDisk(id, file) }
        guard let mark else { return }
        if size == 0 {
            return try makingSpace { journal throws(Errno) in
                try journal.giveUp(id, mark)
                // Sync the journal. Otherwise recovery would lay the old copy over bytes of the next content that
                // reached the disk.
                try journal.sync()
            }
        }
        try rememberingFailure(of: id) { () throws(Errno) in try file.syncData() }
        try contents.syncName(of: id)
        try dropCopy(id, mark)
    }

    private func bringReplacementToDisk(_ id: ContentID, _ file: FileDescriptor) throws {
        try requireSyncs(of: id)
        try rememberingFailure(of: id) { () throws(Errno) in try file.syncData() }
        try contents.syncName(of: id)
        try index.forgetReplacements([id])
        try index.makeChangesDurable()
    }

    private func makingSpace(_ body: (ContentJournal) throws(Errno) -> Void) throws {
        guard let journal = contents.journal else { return }
        do throws(Errno) { try body(journal) } catch .ENOSPC {
            try flushJournal()
            try body(journal)
        }
    }

    /// Writes the journal's contents to their files and syncs them. Call it from a thread that may wait.
    func flushJournal() throws {
        try contents.journal?.settle(
            isGone: { contents.isRetired($0) }, makeDurable: { try index.makeDurable() },
            sync: { try syncCopied($0) })
    }

    private func syncCopied(_ id: ContentID) throws {
        guard try contents.exists(id) else { return }
        try contents.sync(id)
    }

    /// Starts using the journal once its file is prepared.
    /// - Parameter pool: a pool of one thread that syncs contents.
    func beginJournal(_ pool: BlockingPool) {
        guard let journal = contents.journal else { return }
        // If the pool's queue is full, the periodic housekeeping does it.
        let flush: @Sendable () -> Void = { [weak self] in
            do { try self?.flushJournal() } catch {
                self?.logger.error("cannot move contents to their files", metadata: ["reason": "\(error)"])
            }
        }
        journal.whenHalfFull { _ = pool.start(flush) }
        _ = pool.start { [logger] in
            do {
                guard try journal.prepare() else { return }
                logger.info("small new contents are synced in the index's journal")
            } catch {
                logger.error("cannot use the content journal", metadata: ["reason": "\(error)"])
            }
        }
    }
}
