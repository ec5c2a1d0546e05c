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
package final class SyncEngine: Sendable {
    package let context: SyncContext
    let sender: CommitSender

    let downloads: DownloadTable
    /// Contents of old versions. They are kept while programs read them, and for a short time after.
    let versionContents = VersionContents()
    let deletions = Lock(DeletionState())
    let versionLists = VersionLists()
    let packageTrees = PackageTrees()

    /// Whether a writer has closed a file since the download loop last looked.
    let hasClosed = Lock(false)
    let wantedScan = Lock(WantedScan())
    let readingOrder = Lock(ReadingOrder())
    /// Bytes of local contents and of downloads that may have begun, as of the last count.
    let bytesHere = Lock<Int64?>(nil)
    /// Bytes that the lanes of all downloads are fetching.
    let fetchingBytes = Lock<Int64>(0)
    /// The earliest time to free space for fetches again. Delays the next try after one that freed nothing.
    let nextRoomAhead = Lock(Timestamp.zero)
    /// New contents whose item does not reference them yet, or has begun to.
    let made = Lock<Set<ContentID>>([])
    /// An earlier run's contents with smaller ids are not yet checked for ones that no item references. Nil once all
    /// are checked.
    let unswept = Lock<ContentID?>(nil)
    /// Bytes promised to downloads that are about to begin.
    let promisedBytes = Lock<Int64>(0)
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
        downloads = DownloadTable(executor: executor)
        index.observe { [weak self] events in self?.noteEvents(events) }
        recallHeldDeletions()
    }

    /// Runs until the task is cancelled. Call `recover()` first.
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
        if wakesRoom { roomSignal.fire() }
        if wakesDownloads {
            hasClosed.withLock { $0 = true }
            downloadSignal.fire()
        }
        progress.fire()
    }
}

// What the rooms know, for extensions that are not rooms yet.
extension SyncEngine {
    var index: ItemIndex { context.index }
    var store: ContentStore { context.store }
    var service: any CloudService { context.service }
    var configuration: SyncConfiguration { context.configuration }
    var timekeeper: any Timekeeper { context.timekeeper }
    var random: any RandomSource { context.random }
    var pool: BlockingPool { context.pool }
    var executor: (any TaskExecutor)? { context.executor }
    var logger: Logger { context.logger }
    var scanner: ContentScanner { context.scanner }
    package var connection: Connection { context.connection }
    var problems: Problems { context.problems }
    var transfers: Transfers { context.transfers }
    var throttle: Throttle { context.throttle }
    var pushSignal: Signal { context.signals.push }
    var downloadSignal: Signal { context.signals.download }
    var feedSignal: Signal { context.signals.feed }
    var roomSignal: Signal { context.signals.space }
    var progress: Broadcast { context.progress }
    var feed: FeedStatus { context.feed }
    var openItems: (any OpenItems)? { context.openItems }

    package func discard(_ contents: [ContentID]) { context.discard(contents) }
    package func removeRetired() throws { try context.removeRetired() }
    func settler(_ transaction: IndexTransaction) -> Settler { context.settler(transaction) }
    func manifest(of content: RemoteContent) async throws -> Manifest { try await context.manifest(of: content) }
    package func refreshUsage() async { await context.refreshUsage() }
    package func wait(
        atMost duration: Duration, until condition: @Sendable () async throws -> Bool
    ) async throws -> Bool {
        try await context.wait(atMost: duration, until: condition)
    }
}
