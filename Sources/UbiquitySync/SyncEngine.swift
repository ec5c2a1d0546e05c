package import Logging
package import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem
package import UbiquityWire

/// Synchronizes one container between this device and the cloud. It builds the rooms, runs their loops, and forwards.
///
/// Loops run side by side: the *feed* loop reads the changes of other devices, the *push* loop sends local changes, and
/// the *download* loop fetches wanted contents. They share the index. All other state of a loop is lost when the
/// process ends, and the loops can do without it. Time, randomness, network and disk are injected.
///
/// - `Feed/`: `FeedReader` reads the change feed.
/// - `Tree/`: `Settler` places records in the index, `CommitApplier` applies answers to commits. Both are pure.
/// - `Push/`: `ChangeSender` sends local changes, `Gatherer` selects them, `ContentUploader` uploads large contents.
/// - `Packages/`: `PackageSync` gathers the changes of a package, and decides when two devices have changed it.
/// - `Fetch/`: `Downloader` fills placeholders, `BackgroundDownloads` fetches unasked, `CacheSpace` keeps the limits.
/// - `Versions/`: `VersionService` lists versions, `VersionActions` sends decisions, `Trash` restores deleted items.
/// - `Recovery/`: `Recovery` and `PowerLoss` repair what the last run left, `Maintenance` works every few seconds.
/// - `Status/`: `StatusReader` says what is transferred, what waits, and why.
package final class SyncEngine: SyncRoom {
    package let context: SyncContext
    let sender: CommitSender
    package let feedReader: FeedReader
    let claims: PackageClaims
    package let fetch: FetchRooms
    package let versions: VersionService
    package let appVersions: AppVersions
    let maintenance: Maintenance
    let push: PushRooms
    private let waits: WaitReader

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
        claims = PackageClaims(context)
        appVersions = AppVersions(folder: configuration.appVersions)
        fetch = FetchRooms(context, claims, appVersions)
        versions = VersionService(context, appVersions)
        push = PushRooms(context, sender, claims, fetch.packages)
        waits = WaitReader(
            status: StatusReader(context: context, fetch: fetch), claims: claims, hold: push.hold)
        maintenance = Maintenance(
            context: context, recovery: Recovery(context, fetch.inUse), space: fetch.space,
            waitLog: WaitLog(context, waits))
        index.observe { [weak self] events in self?.wakeLoops(for: events) }
        push.hold.recall()
    }

    /// Binds the object that knows the open files. Call it once, before `run`. Without it, no file counts as open.
    package func bind(_ openItems: any OpenItems) { context.bind(openItems) }

    /// Repairs what the last run may have left half done. Call it before the mount serves programs.
    /// - Returns: how many contents of a lost index were set aside.
    @discardableResult
    package func recover() throws -> Int {
        let setAside = try maintenance.recovery.recover()
        try appVersions.load { key in try index.row(key: key).map { !$0.isDeleted } ?? false }
        return setAside
    }

    /// Runs until the task is cancelled. Call `recover()` first.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.feedReader.run() }
            group.addTask { await self.push.changes.run() }
            group.addTask { await self.fetch.background.run() }
            group.addTask { await self.maintenance.run() }
            group.addTask { await self.fetch.space.watch() }
            await group.waitForAll()
        }
        fetch.downloads.stopAll()
    }

    /// Removes contents that no item references, so that no later run takes one for a lost content. Call it when no
    /// program uses the files any more.
    /// - Throws: `.io`.
    package func tidyUp() throws {
        discard(fetch.versionContents.takeAll())
        fetch.packages.dropAll()
        try store.removeRetired { try index.makeDurable() }
        try index.write(.startup) { try $0.setEnded(true) }
        try index.makeDurable()
        maintenance.reportRefusals()
    }

    /// Wakes the loops that an index change concerns.
    private func wakeLoops(for events: [IndexEvent]) {
        var wakesPush = false, wakesDownloads = false, wakesSpace = false
        for event in events {
            guard let after = event.after else {
                // Clears the upload problem, so that it does not delay the deletion.
                if let key = event.before?.key { problems.clear(.upload, of: key) }
                wakesPush = wakesPush || event.origin == .local
                continue
            }
            if !after.dirty.isEmpty || event.kind == .versions { wakesPush = true }
            // The item left sync. Its deletion at the cloud is a change of another row, which has no event.
            if after.isExcluded, event.before?.isExcluded == false { wakesPush = true }
            // When a writer closes, a waiting remote content can replace the file.
            if event.before?.isWriting == true, !after.isWriting { wakesDownloads = true }
            if after.isWriting, event.before?.isWriting != true { wakesSpace = true }
        }
        if wakesPush { agenda.happened(.changesWereMade) }
        if wakesSpace { agenda.happened(.writerOpened) }
        if wakesDownloads {
            fetch.background.recordClose()
            agenda.happened(.writerClosed)
        }
        agenda.happened(.indexChanged)
    }

    /// Ends the service of programs that wait: nobody is signed in any more. Cancel `run` afterwards.
    /// - Parameter reason: for messages, for example "signed out".
    package func signOut(_ reason: String) {
        connection.signOut(reason)
        fetch.downloads.failAll(
            UbiquityError(
                .signedOut, "the content is not here, and this device is signed out",
                remedy: "sign in: ubiquity login"))
        agenda.happened(.offlineModeChanged)
    }

    /// Turns offline mode on or off.
    package func setPaused(_ paused: Bool) {
        connection.setPaused(paused)
        if paused { fetch.downloads.failAll(Connection.pause) }
        agenda.happened(.offlineModeChanged)
    }

    /// Retries all failed transfers at once.
    package func retryNow() {
        problems.clearAll()
        connection.changed.fire()
        agenda.happened(.retryRequested)
    }

    /// Ends the throttle of these items, because somebody waits for them. Later changes are throttled as before.
    package func endRests(of keys: some Sequence<ItemKey>) {
        agenda.endThrottles(of: keys)
    }
}

// Short ways to the most frequent requests of programs and commands.
extension SyncEngine: Materializer {
    package var status: StatusReader { StatusReader(context: context, fetch: fetch) }
    package var control: SyncControl { SyncControl(context: context) }
    package var trash: Trash { Trash(context: context, sender: sender) }
    package var powerLoss: PowerLoss { PowerLoss(context: context) }
    package var downloader: Downloader { fetch.downloader }
    package var space: CacheSpace { fetch.space }
    package var versionDownloads: VersionDownloads { fetch.versions }

    package func begin(_ key: ItemKey) async throws -> PartialContent { try await downloader.begin(key) }
    package func begin(_ version: RemoteVersion) async throws -> PartialContent {
        try await fetch.versions.begin(version)
    }
    package func fill(_ content: PartialContent, _ range: Range<Int64>) async throws {
        try await downloader.fill(content, range)
    }
    package func release(_ content: PartialContent) { downloader.release(content) }
    package func finishIfComplete(_ key: ItemKey) throws { try downloader.finishIfComplete(key) }
    package func finishIfComplete(_ content: PartialContent, of key: ItemKey) throws {
        try downloader.finishIfComplete(content, of: key)
    }
    package func request(_ key: ItemKey) { downloader.request(key) }

    /// Evicts an item's content, which the cloud has. See `Evictor.evict`.
    @discardableResult
    package func evict(_ key: ItemKey) throws -> Bool { try fetch.evictor.evict(key) }
    package func status(of row: ItemRow) throws -> ItemSyncStatus { try status.status(of: row) }
    /// The number of deletions that wait for a person's decision.
    package var heldDeletions: Int { push.hold.count }
    /// Releases the deletions on hold for upload.
    /// - Returns: how many.
    package func confirmDeletions() throws -> Int { try push.hold.confirm() }
    /// Restores the deletions on hold as placeholders with the cloud's state.
    /// - Returns: how many.
    package func undoDeletions() throws -> Int { try push.hold.undo() }
    /// Why the item's upload and its download wait. Nil if they need not wait.
    package func waits(of row: ItemRow, _ reader: IndexReader) throws -> (upload: ItemWait?, download: ItemWait?) {
        try waits.waits(of: row, reader)
    }
    package func summary() throws -> SyncSummary { try status.summary() }
}
