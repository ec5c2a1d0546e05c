package import Logging
package import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem
package import UbiquityWire

/// Keeps one container of this device and of the cloud the same.
///
/// Three loops run side by side: the *feed* brings what others changed, the *push* sends what was changed here, the
/// *downloads* fetch content that should be here. What they share is the index; whatever a loop knows beyond it can be
/// lost with the process. Time, randomness, network and disk come from outside.
package final class SyncEngine: Sendable {
    let index: ItemIndex
    let store: ContentStore
    let service: any CloudService
    let configuration: SyncConfiguration
    let timekeeper: any Timekeeper
    let random: any RandomSource
    let pool: BlockingPool
    let logger: Logger
    let scanner: ContentScanner

    package let connection: Connection
    let problems: Problems
    let transfers: Transfers
    let throttle: Throttle
    let downloads: DownloadTable
    /// Contents of versions beside the current ones, while programs read them and a little longer.
    let versionContents = VersionContents()
    let deletions = Lock(DeletionState())
    let versionLists = VersionLists()
    let executor: (any TaskExecutor)?
    let packageTrees = PackageTrees()

    let pushSignal = Signal()
    let downloadSignal = Signal()
    /// Whether a writer has closed since the download loop last looked.
    let hasClosed = Lock(false)
    let wantedScan = Lock(WantedScan())
    let readingOrder = Lock(ReadingOrder())
    /// Bytes of contents that are here or may have begun to come since they were last counted.
    let bytesHere = Lock<Int64?>(nil)
    /// Bytes that lanes are fetching.
    let fetchingBytes = Lock<Int64>(0)
    /// When room is made again for those: as nothing could go, not at once.
    let nextRoomAhead = Lock(Timestamp.zero)
    /// Contents that have been made for an item that has them soon, or has by now.
    let made = Lock<Set<ContentID>>([])
    /// Contents with smaller ids, which an earlier run has made, are still to be looked through for such that no item
    /// has; nil if they have been.
    let unswept = Lock<ContentID?>(nil)
    /// Of contents that there is room for and whose downloads are about to begin.
    let promisedBytes = Lock<Int64>(0)
    let feedSignal = Signal()
    /// Fires when a program begins to write.
    let roomSignal = Signal()
    /// Fires whenever something a waiter may wait for has changed.
    let progress: Broadcast

    let push = Lock(PushState())
    let uploadPace = Lock(UploadPace())
    /// Complete contents of packages that are still shown in their older state. Lost with the process: they come again.
    let staged = Lock([ItemKey: StagedContent]())
    /// What each held package lacked when it was looked at last.
    let lacking = Lock([ItemKey: ItemID]())
    let feed = Lock(FeedState())
    let openItemsBox = Lock<(any OpenItems)?>(nil)

    /// - Parameter executor: where tasks run that outlive their caller; nil is Swift's own threads. (A simulator has
    ///   its own, and so does everything that `run` is called from.)
    package init(
        index: ItemIndex, store: ContentStore, service: any CloudService, configuration: SyncConfiguration,
        timekeeper: any Timekeeper, random: any RandomSource, pool: BlockingPool, logger: Logger,
        executor: (any TaskExecutor)? = nil
    ) {
        self.index = index
        self.store = store
        self.service = service
        self.configuration = configuration
        self.timekeeper = timekeeper
        self.random = random
        self.pool = pool
        self.logger = logger
        scanner = ContentScanner(clock: timekeeper)
        connection = Connection(timekeeper: timekeeper, random: random)
        problems = Problems(timekeeper: timekeeper, random: random)
        transfers = Transfers()
        throttle = Throttle(timekeeper: timekeeper)
        self.executor = executor
        downloads = DownloadTable(executor: executor)
        progress = Broadcast()
        index.observe { [weak self] events in self?.noteEvents(events) }
        recallHeldDeletions()
    }

    /// Runs until the task is cancelled. `recover()` comes before.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.runFeed() }
            group.addTask { await self.runPush() }
            group.addTask { await self.runDownloads() }
            group.addTask { await self.runMaintenance() }
            group.addTask { await self.watchRoom() }
            await group.waitForAll()
        }
        downloads.stopAll()
    }

    /// Removes contents that no item has, so that none is taken for a lost one. To be called when nobody uses the files
    /// any more. Throws `.io`.
    package func tidyUp() throws {
        discard(versionContents.takeAll())
        dropStaged()
        try store.removeRetired { try index.makeDurable() }
        try index.write(.startup) { try $0.setEnded(true) }
        try index.makeDurable()
        reportRefusals()
    }

    /// Wakes the loops that an index change concerns.
    private func noteEvents(_ events: [IndexEvent]) {
        var wakesPush = false, wakesDownloads = false, wakesRoom = false
        for event in events {
            guard let after = event.after else {
                // What its content failed on does not hold up its deletion.
                if let key = event.before?.key { problems.clear(.upload, of: key) }
                wakesPush = wakesPush || event.origin == .local
                continue
            }
            if !after.dirty.isEmpty || event.kind == .versions { wakesPush = true }
            // A writer's close lets a waiting remote content in.
            if event.before?.isWriting == true, !after.isWriting { wakesDownloads = true }
            if after.isWriting, event.before?.isWriting != true { wakesRoom = true }
        }
        if wakesPush { pushSignal.fire() }
        if wakesRoom { roomSignal.fire() }
        if wakesDownloads {
            hasClosed.withLock { $0 = true }
            downloadSignal.fire()
        }
        progress.fire()
    }

    /// Gives up backing files that a transaction dropped.
    package func discard(_ contents: [ContentID]) {
        if !contents.isEmpty { store.retire(contents) }
    }

    func settler(_ transaction: IndexTransaction) -> Settler {
        Settler(
            transaction, owner: configuration.owner, now: timekeeper.now(),
            trustsPrivileges: configuration.trustsPrivileges)
    }
}
