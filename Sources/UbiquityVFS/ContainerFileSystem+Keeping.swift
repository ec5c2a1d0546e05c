internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
package import UbiquitySystem

// Contents that are synced in the journal of contents, and later themselves.
extension ContainerFileSystem {
    /// Syncs the content and the index, if it is one for the journal.
    /// - Returns: false if it is not, or if that fails: then the content must be synced itself.
    func syncInJournal(_ whole: OpenNode.Whole, _ before: FileStatus) throws -> Bool {
        guard let journal = contents.journal, try journal.keep(whole.id, whole.file) else { return false }
        do {
            // One sync for both, which are in one file.
            let isThere = try index.hasDurableChanges ? false : index.makeDurableByJournal()
            if !isThere { try journal.sync() }
        } catch {
            // Who is at fault is found out by the other way. What was kept of the content before is of an earlier sync.
            logger.error("a content cannot be synced in the journal", metadata: ["reason": "\(error)"])
            journal.noteFailure()
            return false
        }
        contents.noteSynced(whole.id, before)
        return true
    }

    /// The content is on the disk itself, and its name.
    func forgetKept(_ id: ContentID, _ mark: UInt64) throws {
        try makingRoom { journal throws(Errno) in try journal.forget(id, mark) }
    }

    /// The file is about to be made shorter. Whoever has synced it is promised the rest of it, but nothing if there is
    /// none.
    func noteShortening(of id: ContentID?, _ file: FileDescriptor, to size: Int64) throws {
        guard let id else { return }
        let isReplacement = index.isReplacement(id), mark = contents.journal?.mark(of: id)
        guard isReplacement || mark != nil, try file.status().size > size else { return }
        // Shorter than it was when it took another's place it would be taken for one that has not come to the disk.
        if isReplacement { try bringReplacementToDisk(id, file) }
        guard let mark else { return }
        if size == 0 {
            return try makingRoom { journal throws(Errno) in
                try journal.giveUp(id, mark)
                // What comes to the disk of the next content would else be laid over the one that was kept.
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

    /// Brings what the journal keeps to the disk, from a thread that may wait.
    package func settleContents() throws {
        try contents.journal?.settle(
            isGone: { contents.isRetired($0) }, makeDurable: { try index.makeDurable() },
            sync: { try syncKept($0) })
    }

    private func syncKept(_ id: ContentID) throws {
        guard try contents.exists(id) else { return }
        try contents.sync(id)
    }

    /// Lets contents be kept in the journal, as soon as that is made.
    /// - Parameter pool: of one thread, which brings contents to the disk.
    package func beginKeeping(_ pool: BlockingPool) {
        guard let journal = contents.journal else { return }
        // What has no room in the pool's queue is done by the housekeeping.
        let settle: @Sendable () -> Void = { [weak self] in
            do { try self?.settleContents() } catch {
                self?.logger.error("cannot bring contents to the disk", metadata: ["reason": "\(error)"])
            }
        }
        journal.whenHalfFull { _ = pool.start(settle) }
        _ = pool.start { [logger] in
            do {
                guard try journal.prepare() else { return }
                logger.info("small new contents are synced in the index's journal")
            } catch {
                logger.error("no contents are kept in the journal", metadata: ["reason": "\(error)"])
            }
        }
    }
}
