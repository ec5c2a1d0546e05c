package import UbiquityCore
package import UbiquitySystem

/// This device's database of a container, in `index.db`: the local tree, the remote tree and the changes to upload.
///
/// Writes are serial. Each is one transaction; it survives the death of the process when it returns, and a power loss
/// after `makeDurable()`. Local writes gather in a batch (`IndexJournal`). Reads see every write that has returned;
/// most use a connection of their own, but short reads during an open batch use the writer's. Observers are notified of
/// changes in the order of the writes.
///
/// This type is the door to the rooms: `IndexLog` makes transactions last, `IndexCache` answers known queries,
/// `ItemNumbers` and `CommitNumbers` give numbers, `IndexSpace` refuses what a full disk cannot take.
package final class ItemIndex: Sendable {
    let database: IndexDatabase
    let log: IndexLog
    let cache = IndexCache()
    let numbers = ItemNumbers()
    private let commitNumbers: CommitNumbers
    let space: IndexSpace
    let tunnels = Tunnels()
    let ignoreFiles: IgnoreFiles
    package let packages: PackageRules
    /// The owner of the top folder and of items from other devices: owner and group are not synced.
    package let owner: (uid: UInt32, gid: UInt32)
    package let random: any RandomSource
    package let timekeeper: any Timekeeper

    /// Opens the index, or creates it.
    ///
    /// - Parameters:
    ///   - path: The database's file; nil for an index in memory (the simulator).
    ///   - ignoring: Rules for items excluded from sync at any place, unless an ignore file overrides them.
    ///   - packages: Rules for folders that are one document.
    ///   - statementThread: Runs statements in the background.
    ///   - spins: Whether a thread that waits for the writer spins before it sleeps (`ServingPolicy`).
    /// - Throws: `.newerFormat`, `.noSpace`, `.io`.
    package init(
        path: String?, timekeeper: any Timekeeper, random: any RandomSource, ignoring: IgnoreRules = .standard,
        packages: PackageRules = .standard,
        owner: (uid: UInt32, gid: UInt32) = (0, 0), statementThread: BlockingPool? = nil, spins: Bool = true
    ) throws {
        self.timekeeper = timekeeper
        self.random = random
        self.packages = packages
        self.owner = owner
        ignoreFiles = IgnoreFiles(standard: ignoring)
        space = IndexSpace(path: path, timekeeper: timekeeper)
        database = try mapErrors { try IndexDatabase(path: path, spins: spins) }
        log = try IndexLog(database, cache: cache, numbers: numbers, statementThread: statementThread)
        commitNumbers = CommitNumbers(log)
        try prepare()
        try write(.startup) { try $0.makeRoot() }
        let first = ContentID(numbers.upcoming)
        log.disk.trust.withLock { $0 = OutdatedTrust(first: first) }
        cache.recorded.withLock { $0 = RecordedContents(newest: first) }
        try loadIgnoreFiles()
        if try !hasCountedFolders { log.continueFolderCount() }
    }

    private func prepare() throws {
        try mapErrors {
            try database.withWriter { db in
                // Runs in the format the journal was written in.
                if let journal = log.journal { try log.replay(db, journal) }
                try Schema.prepare(db)
                // Runs first, so that this life has its numbers even after a power loss.
                try numbers.refill(db, log.journal)
                if let journal = log.journal { try log.beginLife(db, journal, number: random.next()) }
            }
        }
    }

    /// Returns the journal's file for the index at a path, and the offset from which others may use it. Bytes there are
    /// synced with the journal (`makeDurableByJournal`).
    package static func journalRoom(ofIndexAt path: String) -> (path: String, start: Int64) {
        (IndexJournal.path(ofIndexAt: path), IndexJournal.capacity)
    }

    /// Adds an observer. It is called with every commit's changes, in order, on the committing thread, and must return
    /// quickly.
    package func observe(_ observer: @escaping @Sendable ([IndexEvent]) -> Void) { log.observe(observer) }

    /// Waits until every observer has been notified of the last commit. A commit is readable shortly before that.
    package func awaitPublishing() { database.withJournal {} }

    // MARK: Transactions

    /// Reads the index, including all writes that have returned. One statement is consistent in itself; several may see
    /// different states.
    package func read<T>(_ body: (IndexReader) throws -> T) throws -> T {
        // Without disk space the batch stays open and is read through the writing connection.
        if log.hasOpenBatch, (try? log.commitBatch()) == nil { return try readBatch(body) }
        return try mapErrors { try database.read { try body(IndexReader($0)) } }
    }

    /// Reads like `read`, for a short query: it does not commit the batch, and writers wait for it.
    package func peek<T>(_ body: (IndexReader) throws -> T) throws -> T {
        try log.hasOpenBatch ? readBatch(body) : read(body)
    }

    private func readBatch<T>(_ body: (IndexReader) throws -> T) throws -> T {
        try log.withBatch { db in
            try body(IndexReader(db, seesBatch: log.folderChanges.withLock { !$0.isEmpty }))
        }
    }

    /// Runs `body` as one transaction: all of it takes effect, or nothing.
    package func write<T>(_ origin: IndexEvent.Origin, _ body: (IndexTransaction) throws -> T) throws -> T {
        try log.write(origin, for: self, body)
    }

    // MARK: Numbers

    package func nextCommitNumber() throws -> Int64 { try commitNumbers.next() }

    /// Raises the next number above `last`. Needed if the cloud has a commit of this device that the index does not
    /// know: the index is an old copy, or new on a known device.
    package func raiseCommitNumbers(above last: Int64) throws { try commitNumbers.raise(above: last) }

    /// A version moved out of the versions folder becomes an item with the version's inode number: this bit, which no
    /// other item has, plus a given number.
    package static let versionNumberBit = 50

    /// Returns a content id that was never used.
    package func newContentNumber() throws -> Int64 {
        if let number = numbers.next(1)?.first { return number }
        return try log.writeAlone { _ in numbers.next() }
    }

    /// Returns several content ids; `count` is at most `NumberReserve.perTransaction`.
    package func newContentNumbers(_ count: Int) throws -> [Int64] {
        if let found = numbers.next(count) { return found }
        return try log.writeAlone { _ in (0..<count).map { _ in numbers.next() } }
    }

    // MARK: Durability

    /// Registers `begin`, called each time before the index is synced to disk, for contents that must be there first.
    /// `end` is called when the index is synced or the sync has failed.
    package func beforeDurable(
        _ begin: @escaping @Sendable () throws -> Void, end: @escaping @Sendable () -> Void
    ) {
        log.disk.addPrecursor(begin, end: end)
    }

    /// Makes every change so far survive a power loss. Throws `.io`: then changes may be lost, until a later call
    /// succeeds.
    package func makeDurable() throws { try log.makeDurable() }

    /// Does the same, and also syncs the other part of the journal's file.
    ///
    /// - Returns: False if the index reached the disk in another way; then that part may not be synced.
    package func makeDurableByJournal() throws -> Bool { try log.makeDurableByJournal() }

    /// Does the same as `makeDurable`, through the disk flush at the end of a content's sync.
    ///
    /// - Parameters:
    ///   - device: The device of the content's file system.
    ///   - start: Starts writing the content's bytes without waiting, so that both writes overlap.
    ///   - sync: Syncs the content to disk.
    /// - Returns: False if the index is not known to be synced: its journal is on another device or does not suffice,
    ///   or another sync has failed. The content may or may not have been synced.
    package func makeDurable(
        byFlushOf device: UInt64, start: () throws -> Void, sync: () throws -> Void
    ) throws -> Bool {
        try log.makeDurable(byFlushOf: device, start: start, sync: sync)
    }

    /// Implements the promise of `fsync`: makes changes by programs durable. A further write to a file already recorded
    /// as being written need not be synced: the next start examines such files anyway.
    package func makeChangesDurable() throws { try log.makeChangesDurable() }

    /// Whether everything `makeChangesDurable` would sync is on disk.
    package var hasDurableChanges: Bool { log.hasDurableChanges }

    /// Ensures that after a power loss the content is not taken for the cloud's. Call it before the first byte is
    /// written in place.
    package func distrust(_ content: ContentID) throws { try log.distrust(content) }

    // MARK: Upkeep

    /// Reserves disk space from now on, for a time when the disk is full.
    package func keepReserve() { space.begin() }

    /// Copies the database's log back if it has grown. Call it from time to time, from a thread that may block.
    package func checkpoint() throws {
        try log.commitBatch()
        space.refill()
        try log.checkpoint()
    }

    /// Frees the connections' page caches; later queries read the pages again.
    package func releaseMemory() { database.releaseMemory() }

    /// Copies the log back and closes the file.
    package func close() throws {
        try log.commitBatch()
        log.disk.closeLog()
        try mapErrors { try database.close() }
    }

    // MARK: Recovery

    /// Whether acknowledged changes may be missing: the journal was found damaged or missing, now or at an earlier
    /// opening, or the database was older than the journal. A power loss has the same effect.
    package var hasLostJournal: Bool {
        get throws {
            if log.hasLostChanges { return true }
            return try read { try $0.number("SELECT 1 FROM meta WHERE name = 'lost'", []) } != nil
        }
    }

    /// Clears the loss once recovery has handled what remains of the changes.
    package func forgetJournalLoss() throws { try log.forgetLoss() }

    /// Returns descriptions of the transactions dropped since the last call.
    package func takeRefusals() -> [String] { log.takeRefusals() }

    /// Returns whether the journal's file holds all changes that were acknowledged but not committed.
    package func isJournalWhole() throws -> Bool { try log.isJournalWhole() }

    /// Moves the journal's changes into the database and syncs it. The journal restarts and keeps nothing of earlier
    /// lives.
    package func renewJournal() throws { try log.renewJournal() }

    // MARK: Totals of folders

    /// Returns the totals of a folder as last committed.
    package func sums(below folder: ItemKey) throws -> FolderSums { try read { try $0.sums(below: folder) } }

    /// Counts all totals that are not counted yet.
    package func countFolders() throws { try log.countFolders() }

    /// Counts the next page of items.
    ///
    /// - Returns: Whether there are more.
    package func countFolderPage() throws -> Bool { try log.countFolderPage() }

    /// Deletes the stored totals and counts all items again.
    package func recountFolders() throws { try log.recountFolders() }

    /// Whether the stored totals include all items.
    package var hasCountedFolders: Bool {
        get throws { try read { try FolderCount.counted($0.connection) == FolderCount.whole } }
    }
}
