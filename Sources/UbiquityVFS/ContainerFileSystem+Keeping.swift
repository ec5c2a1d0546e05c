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
        guard let journal = contents.journal, let file = try journal.keep(whole.id, whole.file) else { return false }
        do {
            // One sync for both, which are in one file.
            if index.hasDurableChanges {
                try file.syncData()
            } else if try !index.makeDurableByJournal() {
                journal.noteFailure()
                return false
            }
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
        guard let journal = contents.journal else { return }
        do throws(Errno) { try journal.forget(id, mark) } catch .ENOSPC {
            try settleContents()
            try journal.forget(id, mark)
        }
    }

    /// Brings what the journal keeps to the disk, from a thread that may wait.
    package func settleContents() throws {
        try contents.journal?.settle(
            isGone: { contents.isRetired($0) }, makeDurable: { try index.makeDurable() },
            sync: { id in
                guard try contents.exists(id) else { return }
                let file = try contents.open(id, writable: false)
                try rememberingFailure(of: id) { () throws(Errno) in try file.syncData() }
                try contents.syncName(of: id)
            })
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
            do { try journal.prepare() } catch {
                logger.error("no contents are kept in the journal", metadata: ["reason": "\(error)"])
            }
        }
    }
}
