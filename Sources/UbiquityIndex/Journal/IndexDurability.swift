/// What a loss of power would leave of the index.
///
/// A sync brings the journal to the disk, which is short and lies where its blocks are: what it holds follows what the
/// database has there. The database's log is brought there with it only if it has something that the journal has not.
/// So the journal must not begin anew over what a sync has promised before the log with that is on the disk.
struct IndexDurability {
    /// A sync that has begun.
    struct Sync {
        /// The last transaction that the database had.
        fileprivate let committed: UInt64
        fileprivate let lone: UInt64
        fileprivate let changes: UInt64
        /// Whether the log belongs to it.
        let needsLog: Bool
    }

    /// Counts commits of what does not stand in the journal; an opening makes some.
    private var lone: UInt64 = 1
    /// Of these, how many the log has on the disk.
    private var syncedLone: UInt64 = 0
    /// The last transaction that a sync was asked for.
    private var promised: UInt64 = 0
    /// The last one that the database has on the disk.
    private var synced: UInt64 = 0
    /// Counts local transactions that `fsync` must have brought to the disk, and how many of them are there; what an
    /// earlier opening left behind is one.
    private var changes: UInt64 = 1
    private var syncedChanges: UInt64 = 0

    /// The database has got something, or is about to, that the journal has not.
    mutating func noteLone() { lone += 1 }

    /// A program has changed something that its next `fsync` is to bring to the disk.
    mutating func noteChange() { changes += 1 }

    /// Whether all that `fsync` must have brought to the disk is there.
    var hasAllChanges: Bool { changes == syncedChanges }

    /// - Parameter last: the number of the last transaction; `committed`: of the last one that the database has.
    mutating func begin(last: UInt64, committed: UInt64) -> Sync {
        promised = max(promised, last)
        return Sync(committed: committed, lone: lone, changes: changes, needsLog: lone != syncedLone)
    }

    /// The log is on the disk, and whatever the database has not.
    mutating func noteLog(of sync: Sync) {
        synced = max(synced, sync.committed)
        syncedLone = max(syncedLone, sync.lone)
        noteEnd(of: sync)
    }

    /// All that it had to bring to the disk is there.
    mutating func noteEnd(of sync: Sync) { syncedChanges = max(syncedChanges, sync.changes) }

    /// Whether what was promised from the journal is in the database on the disk.
    var letsJournalBeginAnew: Bool { promised <= synced }

    /// The journal begins anew: it cannot bring back any more what the database has.
    mutating func noteNewBeginning(committed: UInt64) {
        if synced < committed { noteLone() }
    }
}
