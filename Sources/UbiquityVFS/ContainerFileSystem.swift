package import Logging
internal import Synchronization
package import UbiquityContent
package import UbiquityCoordination
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem

/// A container as a POSIX file system, callable without a kernel. It takes no claims: programs reach it only through
/// `ClaimedFileSystem`.
///
/// It answers from the index and the backing files. Calls may come from any thread, and none waits for the network: an
/// operation that must wait returns `Answer.later`. Operations throw `Errno`, `UbiquityError` or `CancellationError`;
/// `Errno(describing:)` maps them to the error the calling program gets.
///
/// Inode numbers come from the index (top folder 1). A directory keeps the number of its key; a file gets another
/// number when a remote update replaces it.
///
/// Lock order: `OpenNode.state`, then the index's writer, then the leaves (`InodeTable`, `OpenNodeTable`,
/// `HandleTable`, `Departures`, `VersionListings`, `VisibleConflicts`, `CompletionWaiters`, `UseLog`, `Replays`,
/// `WaitingCalls`). No lock is held across a wait.
package final class ContainerFileSystem: Sendable {
    /// Its dependencies and settings.
    package struct Parts: Sendable {
        package var index: ItemIndex
        package var contents: ContentStore
        package var materializer: any Materializer
        package var transfers: any TransferStatus
        package var control: any ItemControl
        package var versions: any VersionSource
        package var kernel: any KernelCache
        package var passthrough: any Passthrough
        package var timekeeper: any Timekeeper
        package var container: ContainerID
        package var logger: Logger
        /// Arbitrates between programs and clients; nil where there are no clients.
        package var coordination: Coordination?
        /// Recognizes programs whose reads download nothing.
        package var backgroundReaders: BackgroundReaders
        /// Programs that may download files they open with O_NOATIME.
        package var noAccessTimeReaders: NoAccessTimeReaders
        /// The pool that creates backing files in advance; nil to create none.
        package var preparation: BlockingPool?
        /// The pool that flushes the index while content is flushed; nil to flush one after the other.
        package var syncing: BlockingPool?
        /// Whether one flush may bring both index and content to disk, where their file system allows it.
        package var sharesFlushes: Bool
        /// Whether the record of a close may wait a little for another change (`ClosingFiles`).
        package var delaysCloses: Bool
        /// Largest content, in bytes, that an open waits for.
        package var smallContent: Int64

        /// Up to this number of handles, a file open for writing keeps a second, read-only descriptor. It saves an open
        /// when the writer closes. Beyond this number it would halve the count of files that can be open.
        package var filesWithTwoDescriptors: Int

        /// Default of `smallContent`: about as much as a few requests to the cloud bring.
        package static let smallContent: Int64 = 512 << 10

        /// Whether directories show the losing versions of documents in conflict (`VisibleConflicts`).
        package var showsConflicts: Bool

        package init(
            index: ItemIndex, contents: ContentStore, materializer: any Materializer, transfers: any TransferStatus,
            control: any ItemControl, versions: any VersionSource, kernel: any KernelCache,
            passthrough: any Passthrough = NoPassthrough(), timekeeper: any Timekeeper, container: ContainerID,
            logger: Logger, coordination: Coordination? = nil, backgroundReaders: BackgroundReaders = .none,
            noAccessTimeReaders: NoAccessTimeReaders = NoAccessTimeReaders(),
            preparation: BlockingPool? = nil, syncing: BlockingPool? = nil, sharesFlushes: Bool = true,
            delaysCloses: Bool = false, smallContent: Int64 = Self.smallContent,
            filesWithTwoDescriptors: Int = ProcessHost.openFileLimit / 16, showsConflicts: Bool = false
        ) {
            self.index = index
            self.contents = contents
            self.materializer = materializer
            self.transfers = transfers
            self.control = control
            self.versions = versions
            self.kernel = kernel
            self.passthrough = passthrough
            self.timekeeper = timekeeper
            self.container = container
            self.logger = logger
            self.coordination = coordination
            self.backgroundReaders = backgroundReaders
            self.noAccessTimeReaders = noAccessTimeReaders
            self.preparation = preparation
            self.syncing = syncing
            self.sharesFlushes = sharesFlushes
            self.delaysCloses = delaysCloses
            self.smallContent = smallContent
            self.filesWithTwoDescriptors = filesWithTwoDescriptors
            self.showsConflicts = showsConflicts
        }
    }

    let parts: Parts
    let inodes = InodeTable()
    /// Counts non-local commits. Their changes invalidate the kernel's cached inodes.
    let foreignCommits = Atomic<UInt64>(0)
    let versionNodes = VersionNodes()
    package let versionNames = VersionNames()
    let emptiedVersions = EmptiedVersions()
    let visibleConflicts: VisibleConflicts
    let openNodes = OpenNodeTable()
    package let idle = IdleContents()
    let files = HandleTable<OpenFile>()
    let departures = Departures()
    let versionListings = VersionListings()
    let completions = CompletionWaiters()
    let uses = UseLog()
    /// Number of folder evictions that continue although their callers were answered.
    let folderEvictions = Lock(0)
    let contentNumbers = ContentNumbers()
    let preparedContents: PreparedContents
    let syncThread: SideThread
    let mapped = MappedFiles()
    let closing = ClosingFiles()
    let ignoreFiles = ChangedIgnoreFiles()
    let replays = Replays()
    /// Folders that replays created most recently, and when.
    let newFolders = Lock<[ItemKey: Timestamp]>([:])
    let waitingCalls = WaitingCalls()
    /// Contents of files without a name, by inode.
    let unnamed = Lock(UnnamedContents())
    /// Files whose last close could not be recorded in the index.
    let unnoted = Lock<Set<UInt64>>([])

    var index: ItemIndex { parts.index }
    var contents: ContentStore { parts.contents }
    var kernel: any KernelCache { parts.kernel }
    /// Whether programs may still see the state before some remote change.
    package var hasNewsForKernel: Bool { kernel.hasNews }
    /// A mark of all replays up to now: they have been announced once `hasReplayed` returns true for it. Includes the
    /// commit in progress, which readers of the index may have seen.
    package var replayMark: UInt64 {
        index.awaitPublishing()
        return replays.mark
    }
    package func hasReplayed(_ mark: UInt64) -> Bool { replays.isOver(mark) }
    var logger: Logger { parts.logger }

    /// - Parameter owner: the user of the mount, who owns the top folder.
    package init(_ parts: Parts, owner: (uid: UInt32, gid: UInt32)) throws {
        self.parts = parts
        preparedContents = PreparedContents(pool: parts.preparation)
        visibleConflicts = VisibleConflicts(index: parts.index, isOn: parts.showsConflicts)
        syncThread = SideThread(parts.syncing)
        if let root = try parts.index.row(ino: 1), root.uid != owner.uid {
            _ = try parts.index.setAttributes(ino: 1, AttributeChange(uid: owner.uid, gid: owner.gid))
        }
        let contents = parts.contents
        parts.index.beforeDurable { try contents.beginIndexSync() } end: { contents.endIndexSync() }
        parts.index.observe { [weak self] events in self?.take(events) }
        ignoreFiles.add(try parts.index.foldersWithIgnoreFiles())
        refreshIgnoreFiles()
    }

    // MARK: Rows

    /// The item's row; if the item is deleted and the kernel still has it, its last row.
    func row(_ ino: UInt64) throws -> (row: ItemRow, isOrphan: Bool) {
        if let row = try index.row(ino: ino), !row.isDeleted { return (row, false) }
        if let orphan = inodes.orphan(ino) { return (orphan, true) }
        guard inodes.isKnown(ino) else { throw Errno.ESTALE }
        // The item may be leaving the index just now. Once the writer is free, its last row has been recorded.
        try index.write(.local) { _ in }
        if let row = try index.row(ino: ino), !row.isDeleted { return (row, false) }
        if let orphan = inodes.orphan(ino) { return (orphan, true) }
        throw Errno.ESTALE
    }

    /// The item's row in the index. Throws ESTALE if it is gone; then the kernel looks the path up again.
    func liveRow(_ ino: UInt64) throws -> ItemRow {
        guard let row = try index.row(ino: ino), !row.isDeleted else { throw Errno.ESTALE }
        return row
    }

    /// A directory in which entries can be created or looked up.
    func directory(_ ino: UInt64) throws -> ItemRow {
        let (row, isOrphan) = try row(ino)
        guard row.kind == .directory else { throw Errno.ENOTDIR }
        guard !isOrphan else { throw Errno.ENOENT }
        return row
    }

    // MARK: For the daemon and for tests

    /// Whether a program has the item open. Eviction asks before it removes the content.
    package func isOpen(_ key: ItemKey) throws -> Bool {
        guard let row = try index.row(key: key) else { return false }
        finishCloses(of: row.ino)
        return openNodes.node(row.ino) != nil
    }

    /// Runs `body`, which removes the content, while no program can open the item; nil if one has it open. Otherwise a
    /// reader and the next writer would have different files open.
    package func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? {
        guard let row = try index.row(key: key) else { return try body() }
        finishCloses(of: row.ino)
        return try openNodes.whileClosed(row.ino) {
            forgetIdle(row.ino)
            return try body()
        }
    }

    /// Number of handles that programs have open.
    package var openHandleCount: Int {
        finishCloses()
        return files.count
    }

    /// Describes a broken invariant; nil if all hold.
    /// - Parameter whileIdle: also checks the invariants that hold only when no operation is in progress.
    package func violation(whileIdle: Bool) -> String? {
        if let found = inodes.violation() { return found }
        guard whileIdle else { return nil }
        finishCloses()
        for node in openNodes.all {
            let handles = files.all.filter { $0.node === node }
            let writers = handles.filter { $0.late?.isWriting ?? $0.flags.writes }.count
            let (known, recorded, counted) = node.state.withLock { ($0.writers, $0.isRecorded, $0.handles) }
            if counted != handles.count { return "inode \(node.ino) counts \(counted) handles, not \(handles.count)" }
            if known != writers { return "inode \(node.ino) counts \(known) writers and has \(writers)" }
            if mapped.contains(node) { continue }
            if handles.isEmpty { return "inode \(node.ino) is open without a handle" }
            if recorded, writers == 0 { return "inode \(node.ino) is recorded as being written, without a writer" }
        }
        return openNodes.useCount == files.count + mapped.all.count ? nil : "open inodes and handles do not add up"
    }
}
