internal import UbiquityCore
internal import UbiquitySystem

/// Syncs the files of the index to the disk, and knows which syncs have failed.
///
/// `IndexLog` decides what must be synced. This type calls nothing of the index except the journal's file.
final class DiskSync: Sendable {
    /// Counts failed syncs of the index, and those whose pages were rewritten since.
    private struct Failures {
        var count = 0
        var madeGood = 0
        var isEmpty: Bool { count == madeGood }
    }

    private let path: String?
    /// Actions around a sync of the index, for contents that must be on disk first.
    private let precursors = Lock<[(begin: @Sendable () throws -> Void, end: @Sendable () -> Void)]>([])
    /// Locked during a sync.
    private let failures = Lock(Failures())
    /// Whether the names of the files are known to be on disk.
    private let isNameDurable = Lock(false)
    /// The write-ahead log, once it exists. It stays open as long as the database.
    private let log = Lock<FileDescriptor?>(nil)
    /// Contents that the index on the disk may trust wrongly.
    let trust = Lock(OutdatedTrust(first: ContentID(.max)))

    init(path: String?) { self.path = path }

    func addPrecursor(_ begin: @escaping @Sendable () throws -> Void, end: @escaping @Sendable () -> Void) {
        precursors.withLock { $0.append((begin, end)) }
    }

    /// Runs `body` after everything that must be on disk before the index.
    func withPrecursors(_ body: () throws -> Void) throws {
        var ends: [@Sendable () -> Void] = []
        defer { for end in ends { end() } }
        for precursor in precursors.withLock({ $0 }) {
            ends.append(precursor.end)
            try precursor.begin()
        }
        try body()
    }

    var failureCount: Int { failures.withLock { $0.count } }
    func recordFailure() { failures.withLock { $0.count += 1 } }

    /// Records that the pages of the first `count` failed syncs were written again.
    func recordRewriting(of count: Int) { failures.withLock { $0.madeGood = max($0.madeGood, count) } }

    /// Serializes syncs: the kernel reports a failure to only one of the waiters.
    ///
    /// - Returns: False if a sync has failed before, so that another one would prove nothing.
    func sync(_ body: () throws(Errno) -> Void) throws -> Bool {
        try failures.withLock { failures in
            guard failures.isEmpty else { return false }
            do {
                try FaultPoints.check("index.sync")
                try describing("sync the index to the disk", at: path ?? "", body)
            } catch {
                failures.count += 1
                throw error
            }
            return true
        }
    }

    /// Syncs the write-ahead log, which makes all commits durable. With synchronous = NORMAL a commit reaches the log
    /// by write(2); SQLite syncs the log before it copies it back, and the database after.
    func syncLog() throws(Errno) {
        // Without a log nothing was ever committed.
        guard let path, let log = try openLog(path) else { return }
        FaultPoints.reach("index.sync.log")
        try log.syncData()
        guard !isNameDurable.withLock({ $0 }) else { return }
        try FileSystem.syncDirectory(Path.parent(of: path))
        isNameDurable.withLock { $0 = true }
    }

    private func openLog(_ path: String) throws(Errno) -> FileDescriptor? {
        if let log = log.withLock({ $0 }) { return log }
        do throws(Errno) {
            let file = try FileDescriptor.openFile(path + "-wal", .readOnly)
            log.withLock { $0 = file }
            return file
        } catch .ENOENT { return nil }
    }

    func closeLog() { log.withLock { $0 = nil } }

    /// Syncs everything on the file system of the index.
    func syncFileSystem(at path: String) throws {
        try FaultPoints.check("index.sync")
        try describing("sync the index to the disk", at: path) { () throws(Errno) in
            try FileDescriptor.open(Path.parent(of: path), .readOnly).syncFileSystem()
        }
    }

    /// Frees journal space by syncing the log: the journal may restart only after that. If the sync fails, the journal
    /// runs full, and then each change is a commit.
    func freeSpace(in journal: IndexJournal) {
        let part = journal.beginSync()
        // A caller that waits for the disk learns of the failure from its own sync.
        try? withPrecursors {
            guard try sync({ () throws(Errno) in try syncLog() }) else { return }
            journal.noteLog(of: part)
            journal.noteCommit()
        }
    }
}
