package import Logging
internal import Synchronization
package import UbiquityContent
package import UbiquityCoordination
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem

/// A container as a POSIX file system, callable without a kernel.
///
/// It answers from the index and the backing files. Every call may come from any thread, and none waits for the
/// network: what has to wait is returned as `Answer.later`. Operations throw `Errno`, `UbiquityError` or
/// `CancellationError`; `Errno(describing:)` says what the calling program is told.
///
/// Inode numbers are the index's (top folder 1). A directory's is the number of its key, always; a file's may become
/// another when a remote update replaces it.
///
/// Lock order: `OpenNode.state`, then the index's writer, then the leaves (`InodeTable`, `OpenNodeTable`,
/// `HandleTable`, `Departures`, `VersionListings`, `CompletionWaiters`, `UseLog`, `Replays`,
/// `WaitingCalls`). No lock is held while something waits.
package final class ContainerFileSystem: Sendable {
    /// What it works on and with.
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
        /// Who decides between programs and clients; nil where there are no clients.
        package var coordination: Coordination?
        /// Whose reads download nothing.
        package var backgroundReaders: BackgroundReaders
        /// Programs that may download what they open with O_NOATIME.
        package var noAccessTimeReaders: NoAccessTimeReaders
        /// Where backing files are made in advance; nil if none are to be.
        package var preparation: BlockingPool?
        /// Where the index is brought to the disk while content is; nil if one comes after the other.
        package var syncing: BlockingPool?
        /// Whether index and content may be brought to the disk by one flush, where their file system lets them.
        package var sharesFlushes: Bool
        /// Whether the index may be told of a close a little later, with another change (`ClosingFiles`).
        package var delaysCloses: Bool
        /// Bytes of a content that an open waits for, at most.
        package var smallContent: Int64

        /// Up to this number of handles a file open for writing keeps a second descriptor, for reading only. It saves
        /// an open when the writer closes. With more handles it would halve the number of files that can be open.
        package var filesWithTwoDescriptors: Int

        /// What an open waits for if nothing else is said: no more than some requests to the cloud bring.
        package static let smallContent: Int64 = 512 << 10

        package init(
            index: ItemIndex, contents: ContentStore, materializer: any Materializer, transfers: any TransferStatus,
            control: any ItemControl, versions: any VersionSource, kernel: any KernelCache,
            passthrough: any Passthrough = NoPassthrough(), timekeeper: any Timekeeper, container: ContainerID,
            logger: Logger, coordination: Coordination? = nil, backgroundReaders: BackgroundReaders = .none,
            noAccessTimeReaders: NoAccessTimeReaders = NoAccessTimeReaders(),
            preparation: BlockingPool? = nil, syncing: BlockingPool? = nil, sharesFlushes: Bool = true,
            delaysCloses: Bool = false, smallContent: Int64 = Self.smallContent,
            filesWithTwoDescriptors: Int = ProcessHost.openFileLimit / 16
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
        }
    }

    let parts: Parts
    let inodes = InodeTable()
    /// Counts commits of others than programs. What they change the kernel is told of where it knows it.
    let foreignCommits = Atomic<UInt64>(0)
    let versionNodes = VersionNodes()
    package let versionNames = VersionNames()
    let emptiedVersions = EmptiedVersions()
    let openNodes = OpenNodeTable()
    package let idle = IdleContents()
    let files = HandleTable<OpenFile>()
    /// The claims of open files, by handle.
    let passes = Lock<[UInt64: ProgramPass]>([:])
    let departures = Departures()
    let versionListings = VersionListings()
    let completions = CompletionWaiters()
    let uses = UseLog()
    /// Evictions of folders that go on though their callers were answered.
    let folderEvictions = Lock(0)
    let contentNumbers = ContentNumbers()
    let preparedContents: PreparedContents
    let syncThread: SideThread
    let mapped = MappedFiles()
    let closing = ClosingFiles()
    let ignoreFiles = ChangedIgnoreFiles()
    let replays = Replays()
    /// Folders that replays have made, and when: of the last ones.
    let newFolders = Lock<[ItemKey: Timestamp]>([:])
    let waitingCalls = WaitingCalls()
    /// The threads of programs whose calls wait for something: a content, a claim; 0 for those that cannot be seen from
    /// here. One that waits in an open has nothing open yet, and keeps the mount from being taken away all the same.
    package let waitingCallers = WaitCounter<Int32>()
    /// The contents of files without a name, by inode.
    let unnamed = Lock(UnnamedContents())
    /// Files whose last close could not be noted in the index.
    let unnoted = Lock<Set<UInt64>>([])

    var index: ItemIndex { parts.index }
    var contents: ContentStore { parts.contents }
    var kernel: any KernelCache { parts.kernel }
    /// Whether programs may still see what was before some change of another device.
    package var hasNewsForKernel: Bool { kernel.hasNews }
    /// The same of what is replayed: all that has changed till now is told of when `hasReplayed` says so of this mark.
    /// It waits for the commit that is under way, which those who read the index may have seen.
    package var replayMark: UInt64 {
        index.awaitPublishing()
        return replays.mark
    }
    package func hasReplayed(_ mark: UInt64) -> Bool { replays.isOver(mark) }
    var logger: Logger { parts.logger }

    /// - Parameter owner: the user whose mount it is; the top folder is theirs.
    package init(_ parts: Parts, owner: (uid: UInt32, gid: UInt32)) throws {
        self.parts = parts
        preparedContents = PreparedContents(pool: parts.preparation)
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

    /// The item, or what it was if it is gone and the kernel still has it.
    func row(_ ino: UInt64) throws -> (row: ItemRow, isOrphan: Bool) {
        if let row = try index.row(ino: ino), !row.isDeleted { return (row, false) }
        if let orphan = inodes.orphan(ino) { return (orphan, true) }
        guard inodes.isKnown(ino) else { throw Errno.ESTALE }
        // It may be leaving the index just now: when the writer is through, its last state has been noted.
        try index.write(.local) { _ in }
        if let row = try index.row(ino: ino), !row.isDeleted { return (row, false) }
        if let orphan = inodes.orphan(ino) { return (orphan, true) }
        throw Errno.ESTALE
    }

    /// The item, which must be in the index. Throws ESTALE: then the kernel looks the path up again.
    func liveRow(_ ino: UInt64) throws -> ItemRow {
        guard let row = try index.row(ino: ino), !row.isDeleted else { throw Errno.ESTALE }
        return row
    }

    /// A directory that entries can be made in or looked up in.
    func directory(_ ino: UInt64) throws -> ItemRow {
        let (row, isOrphan) = try row(ino)
        guard row.kind == .directory else { throw Errno.ENOTDIR }
        guard !isOrphan else { throw Errno.ENOENT }
        return row
    }

    // MARK: For the daemon and for tests

    /// Whether a program has the item open. Eviction asks, before it takes the content away.
    package func isOpen(_ key: ItemKey) throws -> Bool {
        guard let row = try index.row(key: key) else { return false }
        finishCloses(of: row.ino)
        return openNodes.node(row.ino) != nil
    }

    /// Runs `body`, which takes the content away, while nobody can open the item; nil if a program has it open. What a
    /// reader has open would else be another file than what a writer opens next.
    package func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? {
        guard let row = try index.row(key: key) else { return try body() }
        finishCloses(of: row.ino)
        return try openNodes.whileClosed(row.ino) {
            forgetIdle(row.ino)
            return try body()
        }
    }

    /// Files that programs have open.
    package var openHandleCount: Int {
        finishCloses()
        return files.count
    }

    /// What must hold at every moment, and more if nothing is under way. Nil if it does.
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
            if recorded, writers == 0 { return "inode \(node.ino) is recorded as written by nobody" }
        }
        return openNodes.useCount == files.count + mapped.all.count ? nil : "open inodes and handles do not add up"
    }
}
