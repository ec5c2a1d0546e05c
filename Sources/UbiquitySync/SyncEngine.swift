package import Logging
package import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem
package import UbiquityWire

/// Synchronizes one container between this device and the cloud.
///
/// Three loops run side by side. The *feed* loop reads the changes of other devices, the *push* loop sends local
/// changes, and the *download* loop fetches wanted contents. The loops share the index. All other state of a loop is
/// lost when the process ends, and the loops can do without it. Time, randomness, network and disk are injected.
package final class SyncEngine: SyncRoom {
    package let context: SyncContext
    let sender: CommitSender
    package let feedReader: FeedReader
    let unknownItems: UnknownItems

    let downloads: DownloadTable
    let evictor: Evictor
    package let space: CacheSpace
    /// Contents of old versions. They are kept while programs read them, and for a short time after.
    let versionContents = VersionContents()
    let deletions = Lock(DeletionState())
    let versionLists = VersionLists()
    let packageTrees = PackageTrees()

    /// Whether a writer has closed a file since the download loop last looked.
    let hasClosed = Lock(false)
    let wantedScan = Lock(WantedScan())
    let readingOrder = Lock(ReadingOrder())
    /// New contents whose item does not reference them yet, or has begun to.
    let made = Lock<Set<ContentID>>([])
    /// An earlier run's contents with smaller ids are not yet checked for ones that no item references. Nil once all
    /// are checked.
    let unswept = Lock<ContentID?>(nil)
    let push = Lock(PushState())
    /// Complete contents of packages that still show their older state. Lost with the process, and downloaded again.
    let staged = Lock([ItemKey: StagedContent]())
    /// The missing item of each held package, as of the last look.
    let lacking = Lock([ItemKey: ItemID]())

    /// - Parameter executor: runs the tasks that outlive their caller. Nil means Swift's own threads. A simulator
    ///   passes its own executor and calls `run` on it.
    package init(
        index: ItemIndex, store: ContentStore, service: any CloudService, configuration: SyncConfiguration,
        timekeeper: any Timekeeper, random: any RandomSource, pool: BlockingPool, logger: Logger,
        executor: (any TaskExecutor)? = nil
    ) {
        context = SyncContext(
            index: index, store: store, service: service, configuration: configuration,
            environment: SyncEnvironment(
                timekeeper: timekeeper, random: random, pool: pool, logger: logger, executor: executor))
        sender = CommitSender(context)
        feedReader = FeedReader(context)
        unknownItems = UnknownItems(context)
        downloads = DownloadTable(executor: executor)
        evictor = Evictor(context: context, downloads: downloads)
        space = CacheSpace(context, downloads, evictor)
        index.observe { [weak self] events in self?.noteEvents(events) }
        recallHeldDeletions()
    }

    /// Runs until the task is cancelled. Call `recover()` first.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.feedReader.run() }
            group.addTask { await self.runPush() }
            group.addTask { await self.runDownloads() }
            group.addTask { await self.runMaintenance() }
            group.addTask { await self.space.watch() }
            await group.waitForAll()
        }
        downloads.stopAll()
    }

    /// Removes contents that no item references, so that no later run takes one for a lost content. Call it when no
    /// program uses the files any more.
    /// - Throws: `.io`.
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
                // Clears the upload problem, so that it does not delay the deletion.
                if let key = event.before?.key { problems.clear(.upload, of: key) }
                wakesPush = wakesPush || event.origin == .local
                continue
            }
            if !after.dirty.isEmpty || event.kind == .versions { wakesPush = true }
            // When a writer closes, a waiting remote content can replace the file.
            if event.before?.isWriting == true, !after.isWriting { wakesDownloads = true }
            if after.isWriting, event.before?.isWriting != true { wakesRoom = true }
        }
        if wakesPush { pushSignal.fire() }
        if wakesRoom { spaceSignal.fire() }
        if wakesDownloads {
            hasClosed.withLock { $0 = true }
            downloadSignal.fire()
        }
        progress.fire()
    }
}
