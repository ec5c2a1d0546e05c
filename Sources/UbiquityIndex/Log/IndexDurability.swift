/// Tracks which changes of the index would survive a power loss.
///
/// A sync flushes the journal, which is short and contiguous; its entries follow what the database has on disk. The
/// database's log is flushed too only if it has changes that the journal lacks. So the journal must not restart over
/// entries promised by a sync until the log with those changes is on disk.
struct IndexDurability {
    /// A sync that has begun.
    struct Sync {
        /// The last transaction that the database had when the sync began.
        fileprivate let committed: UInt64
        fileprivate let lone: UInt64
        fileprivate let changes: UInt64
        /// Whether the sync must flush the log too.
        let needsLog: Bool
    }

    /// Counts commits that bypass the journal; opening the index makes some.
    private var lone: UInt64 = 1
    /// How many of those commits are on disk with the log.
    private var syncedLone: UInt64 = 0
    /// The last transaction that a sync has promised.
    private var promised: UInt64 = 0
    /// The last transaction that the database has on disk.
    private var synced: UInt64 = 0
    /// Counts local transactions that `fsync` must make durable, and those that are. The rest of an earlier opening
    /// counts as one.
    private var changes: UInt64 = 1
    private var syncedChanges: UInt64 = 0

    /// Records that the database has, or is about to have, changes that the journal lacks.
    mutating func noteLone() { lone += 1 }

    /// Records a program's change that its next `fsync` must make durable.
    mutating func noteChange() { changes += 1 }

    /// Whether all changes that `fsync` must make durable are on disk.
    var hasAllChanges: Bool { changes == syncedChanges }

    /// - Parameters:
    ///   - last: The number of the last transaction.
    ///   - committed: The number of the last transaction committed in the database.
    mutating func begin(last: UInt64, committed: UInt64) -> Sync {
        promised = max(promised, last)
        return Sync(committed: committed, lone: lone, changes: changes, needsLog: lone != syncedLone)
    }

    /// Records that the log is on disk, and the journal as far as the database lacks its entries.
    mutating func noteLog(of sync: Sync) {
        synced = max(synced, sync.committed)
        syncedLone = max(syncedLone, sync.lone)
        noteEnd(of: sync)
    }

    /// Records that everything the sync had to flush is on disk.
    mutating func noteEnd(of sync: Sync) { syncedChanges = max(syncedChanges, sync.changes) }

    /// Whether the database has all promised entries of the journal on disk.
    var letsJournalBeginAnew: Bool { promised <= synced }

    /// Records that the journal restarts: it can no longer restore what the database has.
    mutating func noteNewBeginning(committed: UInt64) {
        if synced < committed { noteLone() }
    }
}
