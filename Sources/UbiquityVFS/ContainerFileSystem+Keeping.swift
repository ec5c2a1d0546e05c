internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
package import UbiquitySystem

// Contents whose sync goes to the content journal first, and to their own file later.
extension ContainerFileSystem {
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
    func forgetKept(_ id: ContentID, _ mark: UInt64) throws {
        try makingRoom { journal throws(Errno) in try journal.forget(id, mark) }
    }

    /// Prepares the shortening of a file. After a sync its remaining bytes are promised; a file truncated to zero has
    /// none.
    func noteShortening(of id: ContentID?, _ file: FileDescriptor, to size: Int64) throws {
        guard let id else { return }
        let isReplacement = index.isReplacement(id), mark = contents.journal?.mark(of: id)
        guard isReplacement || mark != nil, try file.status().size > size else { return }
        // A replacement that is shorter than recorded would be taken for one that did not reach the disk.
        if isReplacement { try bringReplacementToDisk(id, file) }
        guard let mark else { return }
        if size == 0 {
            return try makingRoom { journal throws(Errno) in
                try journal.giveUp(id, mark)
                // Sync the journal. Otherwise recovery would lay the old copy over bytes of the next content that
                // reached the disk.
                try journal.sync()
            }
        }
        try rememberingFailure(of: id) { () throws(Errno) in try file.syncData() }
        try contents.syncName(of: id)
        try forgetKept(id, mark)
    }

    private func bringReplacementToDisk(_ id: ContentID, _ file: FileDescriptor) throws {
        try requireSyncs(of: id)
        try rememberingFailure(of: id) { () throws(Errno) in try file.syncData() }
        try contents.syncName(of: id)
        try index.forgetReplacements([id])
        try index.makeChangesDurable()
    }

    private func makingRoom(_ body: (ContentJournal) throws(Errno) -> Void) throws {
        guard let journal = contents.journal else { return }
        do throws(Errno) { try body(journal) } catch .ENOSPC {
            try settleContents()
            try body(journal)
        }
    }

    /// Writes the journal's contents to their files and syncs them. Call it from a thread that may wait.
    package func settleContents() throws {
        try contents.journal?.settle(
            isGone: { contents.isRetired($0) }, makeDurable: { try index.makeDurable() },
            sync: { try syncKept($0) })
    }

    private func syncKept(_ id: ContentID) throws {
        guard try contents.exists(id) else { return }
        try contents.sync(id)
    }

    /// Starts using the journal once its file is prepared.
    /// - Parameter pool: a pool of one thread that syncs contents.
    package func beginKeeping(_ pool: BlockingPool) {
        guard let journal = contents.journal else { return }
        // If the pool's queue is full, the periodic housekeeping does it.
        let settle: @Sendable () -> Void = { [weak self] in
            do { try self?.settleContents() } catch {
                self?.logger.error("cannot move contents to their files", metadata: ["reason": "\(error)"])
            }
        }
        journal.whenHalfFull { _ = pool.start(settle) }
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
