internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityVFS

/// A device from a start to a crash: one process.
final class DeviceLife: Sendable {
    /// Interval at which the file system's batches are committed, as in the daemon.
    private static let housekeeping = Duration.seconds(5)

    /// Creating, listing and copying all 256 takes a sixth of a run.
    private static let contentFolders = 4

    /// Space for some thirty small contents.
    private static let journalHalf: Int64 = 16 << 10

    let index: ItemIndex
    let store: ContentStore
    let engine: SyncEngine
    let fileSystem: ContainerFileSystem
    /// The file system as programs see it.
    let claimedFileSystem: ClaimedFileSystem
    let executor: VirtualExecutor
    private let world: VirtualWorld
    private let tasks = Lock<[Task<Void, Never>]>([])
    private let isEnded = Lock(false)

    /// The longest wait of a job for a thread on a busy device.
    private static let longestWait: UInt64 = 30_000_000

    private static func pause(of device: SimulatedDevice) -> @Sendable () async -> Void {
        let world = device.world
        guard device.isBusy else { return { await world.pause() } }
        return {
            let wait = world.random.next() % longestWait
            try? await world.sleep(for: .nanoseconds(Int64(wait)))
        }
    }

    /// The start of a device, before anything is visible.
    init(_ device: SimulatedDevice, number: Int, _ configuration: SyncConfiguration) throws {
        let world = device.world, name = device.name
        self.world = world
        executor = VirtualExecutor(world: world, name: "\(name)\(number)")
        let folder = device.disk.folder
        index = try ItemIndex(
            path: "\(folder)/index.db", timekeeper: device.timekeeper, random: world.random, owner: (1000, 1000))
        let disk = device.disk
        let room = ItemIndex.journalRoom(ofIndexAt: "\(folder)/index.db")
        let journal = ContentJournal(
            path: room.path, start: room.start, boot: configuration.boot, random: world.random,
            placement: ContentJournal.Placement { file, _ in disk.isUnplaced(file) }, halfSize: Self.journalHalf)
        store = try ContentStore(stateFolder: folder, folders: Self.contentFolders, journal: journal)
        let restoration = try store.journal?.restore(into: store) { [index] id in
            try index.read { try $0.needsWhole(id) }
        }
        if let failure = restoration?.failure {
            world.trace.note("\(world.uptime) \(name) cannot restore a content: \(failure)")
        }
        let logger = Logger(label: name, factory: { _ in TraceLogHandler(world: world, device: name) })
        engine = SyncEngine(
            index: index, store: store, service: device.link, configuration: configuration,
            timekeeper: device.timekeeper, random: world.random,
            pool: BlockingPool(pausing: Self.pause(of: device)), logger: logger, executor: executor)
        guard let container = ContainerID("simulation") else {
            throw UbiquityError(.invalidName, "the simulated container's name is not valid")
        }
        fileSystem = try ContainerFileSystem(
            FileSystemParts(
                index: index, contents: store, materializer: engine, transfers: NoTransfers(),
                control: DirectControl(engine: engine),
                versions: DirectVersions(engine: engine), kernel: NoKernelCache(), timekeeper: device.timekeeper,
                container: container, logger: logger,
                // The simulated disk records syncs per file.
                sharesFlushes: false), owner: (1000, 1000))
        claimedFileSystem = ClaimedFileSystem(fileSystem)
        engine.bind(OpenFiles(fileSystem))
        try engine.recover()
        fileSystem.beginJournal(BlockingPool(pausing: {}))
    }

    func run() {
        let engine = engine, fileSystem = fileSystem, world = world
        tasks.withLock { tasks in
            tasks.append(Task(executorPreference: executor) { await engine.run() })
            tasks.append(
                Task(executorPreference: executor) {
                    while (try? await world.sleep(for: Self.housekeeping)) != nil {
                        fileSystem.flush()
                        // Fails on a full disk, or in a crash: a later call retries.
                        do { try fileSystem.flushJournal() } catch {
                            world.trace.note("\(world.uptime) contents are not settled: \(error)")
                        }
                    }
                })
        }
    }

    /// Shuts down like a daemon that is asked to end.
    func stop(within limit: Duration) async throws {
        let tasks = tasks.withLock { $0 }
        let running = Lock(tasks.count)
        for task in tasks {
            task.cancel()
            Task(executorPreference: executor) {
                await task.value
                running.withLock { $0 -= 1 }
            }
        }
        let latest = world.uptime + limit
        while running.withLock({ $0 > 0 }) {
            guard world.uptime < latest else {
                throw UbiquityError(.timedOut, "\(running.withLock { $0 }) tasks have not ended after \(limit)")
            }
            try await world.sleep(for: .milliseconds(10))
        }
    }

    var isAlive: Bool { isEnded.withLock { !$0 } }

    /// Stops everything. Its tasks are not cancelled: a cancellation would run their clean-up.
    func end() {
        isEnded.withLock { $0 = true }
        executor.freeze()
    }

    func letGo() {
        end()
        for task in tasks.withLock({ $0 }) { task.cancel() }
    }
}

/// The files that programs have open. Weak, because the file system owns the engine and the engine owns this: a run of
/// many worlds would keep them all.
private final class OpenFiles: OpenItems {
    private weak let fileSystem: ContainerFileSystem?

    init(_ fileSystem: ContainerFileSystem) { self.fileSystem = fileSystem }

    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? {
        try fileSystem?.whileClosed(key, body)
    }
}

/// Attributes of transfers are not tested here.
private struct NoTransfers: TransferStatus {
    var space: AccountSpace? { nil }
    var identityToken: String? { nil }
    func transfer(of key: ItemKey) -> ItemTransfer? { nil }
    func transfer(below folder: ItemKey) -> ItemTransfer? { nil }
}

/// The operations that control attributes of files request.
private struct DirectControl: ItemControl {
    let engine: SyncEngine
    func requestDownload(_ key: ItemKey) async throws { engine.request(key) }
    func evict(_ key: ItemKey) async throws { try engine.evict(key) }
    func setPinned(_ key: ItemKey, _ isPinned: Bool) async throws { try engine.downloader.setPinned(key, isPinned) }
}

/// The versions that the hidden folders show.
private struct DirectVersions: VersionSource {
    let engine: SyncEngine
    func otherVersions(of item: ItemID) async throws -> [RemoteVersion] { try await engine.versions.otherVersions(of: item) }
    func begin(_ version: RemoteVersion) async throws -> PartialContent { try await engine.begin(version) }
    func copy(_ version: RemoteVersion) async throws -> ContentID { try await engine.versionDownloads.copy(version) }
    func tree(of version: RemoteVersion) async throws -> PackageTree { try await engine.versionDownloads.tree(of: version) }
}

/// Writes the engine's log to the trace.
struct TraceLogHandler: LogHandler {
    let world: VirtualWorld
    let device: String
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    init(world: VirtualWorld, device: String) {
        self.world = world
        self.device = device
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        let line = "\(world.uptime) \(device): \(event.message)\(details)"
        // They contain the time of the machine's zone.
        world.trace.note(line, isHashed: !WaitLog.messages.contains(event.message))
    }
}
