import Logging
import UbiquityCloudClient
import UbiquityContent
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS
import UbiquityWire

/// A mounted container with all its parts, which are put together here.
final class Mount: Sendable {
    /// Threads for disk and index calls of the engine and the local socket. More than cores, because they wait for the
    /// disk; few, because each may hold a chunk.
    private static let diskThreads = 8
    /// In bytes; only the used part takes memory. Some work recurses as deep as folders are nested (1000), with frames
    /// of up to 20 KB a level in a debug build.
    private static let diskStack = 64 * 1024 * 1024
    /// The session's own limits (3 s for the mount's users, 10 s for a hanging kernel) and a little more.
    private static let terminationLimit = Duration.seconds(15)
    /// Limit for the engine's calls in progress at the end.
    private static let endLimit = Duration.seconds(5)
    /// The kernel ends the session first and then forgets its inodes: two to three seconds for a million files. The
    /// unmounting command gets its answer after that.
    private static let unmountLimit = Duration.seconds(60)

    let parts: MountParts
    let controller: MountController
    let session: FUSESession
    private let lock: ProcessLock
    private let server: ControlServer

    /// Mounts the container. Every check that could refuse comes before the mount appears.
    init(_ settings: MountSettings, logger: Logger, log: LogFile) async throws {
        let folder = try MountLauncher.containerFolder(settings)
        try folder.make()
        IndexReserve(besideIndexAt: folder.index).giveIfFull()
        lock = try ProcessLock(folder.lock)
        let notifier = KernelNotifier(logger: Self.logger(logger, "kernel"))
        parts = try Self.makeParts(settings, folder, notifier, logger, log)
        controller = MountController(parts)
        server = ControlServer(
            path: folder.controlSocket, routes: ControlRoutes(controller: controller),
            logger: Self.logger(logger, "control"))
        do {
            try await server.start()
            session = try FUSESession(
                fileSystem: parts.claimedFileSystem, notifier: notifier, passthrough: parts.passthrough,
                rings: parts.rings, configuration: FUSESession.Configuration(
                    mountPoint: settings.mountPoint, source: folder.path, options: settings.options),
                logger: Self.logger(logger, "fuse"))
        } catch {
            await server.stop()
            await parts.client.shutdown()
            throw error
        }
    }

    // MARK: Construction

    private static func makeParts(
        _ settings: MountSettings, _ folder: ContainerFolder, _ kernel: any KernelCache, _ logger: Logger,
        _ log: LogFile
    ) throws -> MountParts {
        let serving = try settings.serving()
        let idle = try makeIdleParts(settings, folder, logger: logger)
        let index = idle.index, contents = idle.contents, engine = idle.engine, pool = idle.pool
        let timekeeper = SystemTimekeeper()
        let tree = ItemTree(index: index)
        let passthrough = KernelPassthrough(refusal: settings.passthroughRefusal) { try contents.temporaryFile() }
        let coordination = Coordination(
            isStrict: settings.isStrict, surroundings: IndexSurroundings(index: index), timekeeper: timekeeper)
        let eviction = AskingEviction(engine: engine, index: index, coordination: coordination, pool: pool)
        let options = try UserConfiguration.load()
        let fileSystem = try ContainerFileSystem(
            FileSystemParts(
                index: index, contents: contents, materializer: engine,
                transfers: EngineTransfers(
                    engine: engine, index: index,
                    identity: EngineTransfers.identity(
                        idle.account, folder.account.number, settings.container, idle.identity.id)),
                control: EngineControl(engine: engine, eviction: eviction, tree: tree, pool: pool),
                versions: EngineVersions(engine: engine), kernel: kernel, passthrough: passthrough,
                timekeeper: timekeeper, container: settings.container, logger: Self.logger(logger, "files"),
                coordination: coordination,
                backgroundReaders: BackgroundReaders(names: options.backgroundReaders),
                noAccessTimeReaders: NoAccessTimeReaders(names: options.noAccessTimeReaders),
                preparation: BlockingPool(name: "new-files", threads: 1),
                syncing: BlockingPool(name: "sync-index", threads: 1), delaysCloses: true,
                showsConflicts: settings.showsConflicts || options.showsConflicts),
            owner: (uid: ProcessHost.userID, gid: ProcessHost.groupID))
        let presenters = PresenterPump(coordination, index)
        engine.bind(
            ItemUsers(
                fileSystem: fileSystem, index: index, coordination: coordination, presenters: presenters, pool: pool))
        // Repair interrupted operations of the last run before the mount shows them.
        let setAside = try engine.recover()
        try fileSystem.adoptWriters()
        fileSystem.beginJournal(BlockingPool(name: "keep-contents", threads: 1))
        let rings = settings.rings()
        return MountParts(
            idle: idle, settings: settings, folder: folder, fileSystem: fileSystem,
            claimedFileSystem: ClaimedFileSystem(fileSystem), passthrough: passthrough,
            rings: RequestRings(refusal: rings.refusal, policy: serving), coordination: coordination,
            presenters: presenters, timekeeper: timekeeper, startedAt: timekeeper.now(), logger: logger, log: log,
            notices: (setAside == 0 ? [] : [lostIndexNotice(setAside, contents)])
                + contents.movedAside.map(folderNotice) + lowDiskNotice(engine)
                + (rings.notice.map { [$0] } ?? []))
    }

    /// A warning if the disk has less free space than the floor at the start. Nothing is refused then, so no error
    /// would report it.
    private static func lowDiskNotice(_ engine: SyncEngine) -> [String] {
        guard let free = try? engine.space.freeBytesBelowFloor() else { return [] }
        let floor = ByteSize.text(engine.space.floor.usual)
        return [
            "only \(ByteSize.text(free)) are free on the disk, and --disk-floor keeps "
                + "\(floor) free: contents are evicted, and larger files are downloaded "
                + "only when they are opened or named in 'ubiquity download'; free some space, or set a smaller "
                + "--disk-floor",
        ]
    }

    private static func folderNotice(_ name: String, _ path: String) -> String {
        "content/\(name) in the state folder was not a folder; it was renamed to \(path), and 'ubiquity "
            + "doctor' looks for the missing contents"
    }

    /// A notice about contents that were never uploaded and exist only in set-aside files, where no user would look.
    private static func lostIndexNotice(_ count: Int, _ store: ContentStore) -> String {
        let contents = count == 1 ? "1 content" : "\(count) contents"
        return "the index of this container has lost the files of \(contents); the contents are kept "
            + "in \(store.asideDirectory), and may never have been uploaded"
    }

    /// The parts that work without a mount: index, contents and an engine that is not running.
    static func makeIdleParts(
        _ settings: MountSettings, _ folder: ContainerFolder, logger: Logger
    ) throws -> IdleParts {
        let timekeeper = SystemTimekeeper(), random = SystemRandom()
        let pool = BlockingPool(name: "disk", threads: diskThreads, stackSize: diskStack)
        let owner = (uid: ProcessHost.userID, gid: ProcessHost.groupID)
        let options = try UserConfiguration.load()
        for complaint in options.complaints {
            logger.warning("a line of the configuration is ignored", metadata: ["reason": "\(complaint)"])
        }
        let index = try ItemIndex(
            path: folder.index, timekeeper: timekeeper, random: random, ignoring: options.ignoring,
            packages: options.packages, owner: owner, statementThread: BlockingPool(name: "index", threads: 1))
        index.keepReserve()
        let boot = Array(try Boot.id(ofFolder: folder.path).utf8)
        let room = ItemIndex.journalRoom(ofIndexAt: folder.index)
        let contents = try ContentStore(
            stateFolder: folder.path,
            journal: ContentJournal(path: room.path, start: room.start, boot: boot, random: random))
        // Without an index it is unknown which contents are needed: they are set aside with the others.
        let isNew = try index.read { try $0.lastBoot() } == nil
        try restoreKept(into: contents, logger) { id in try isNew || index.read { try $0.needsWhole(id) } }
        let identity = try DeviceIdentity.load(deviceFolder: settings.deviceFolder, name: settings.deviceName)
        let signIn = try SignIn.load(deviceFolder: settings.deviceFolder)
        let cloud = try makeCloud(settings, folder, signIn, identity, pool, logger)
        var configuration = SyncConfiguration(
            device: identity.id, deviceName: identity.name, policy: settings.policy.forEngine,
            cacheLimit: settings.cacheLimit,
            diskFloor: try settings.diskFloor ?? MountSettings.defaultDiskFloor(diskBytes: contents.diskBytes()),
            boot: boot, owner: owner)
        configuration.allowsMassDelete = settings.allowsMassDelete
        configuration.trustsPrivileges = settings.trustsPrivileges || options.trustsPrivileges
        let engine = SyncEngine(
            index: index, store: contents, service: cloud.service, configuration: configuration, timekeeper: timekeeper,
            random: random, pool: pool, logger: Self.logger(logger, "sync"))
        return IdleParts(
            account: signIn?.account ?? DeviceFolder.localAccount, identity: identity, index: index,
            contents: contents, client: cloud.client, service: cloud.service, embeddedCloud: cloud.embedded,
            engine: engine, pool: pool)
    }

    /// Rewrites synced contents that a power loss has destroyed. Throws if that fails now: otherwise the truncated
    /// content would be taken for complete and uploaded.
    static func restoreKept(
        into contents: ContentStore, _ logger: Logger, isUsed: (ContentID) throws -> Bool
    ) throws {
        guard let restoration = try contents.journal?.restore(into: contents, isUsed: isUsed) else { return }
        if !restoration.restored.isEmpty {
            logger.notice(
                "rewrote contents after a power loss",
                metadata: ["count": "\(restoration.restored.count)"])
        }
        guard let failure = restoration.failure else { return }
        logger.error("cannot rewrite a content after a power loss", metadata: ["reason": "\(failure)"])
        guard let first = restoration.missing.first else { return }
        let missing = restoration.missing.count
        throw UbiquityError(
            UbiquityError.from(failure).code,
            "\(missing) \(missing == 1 ? "content" : "contents"), saved before the power loss, cannot be restored: "
                + "\(failure)",
            at: contents.path(of: first),
            remedy: "nothing is lost yet: free space on the disk or make it writable, then mount again")
    }

    /// The cloud of the account, or the embedded one. It does not connect yet: the mount does not wait for that.
    private static func makeCloud(
        _ settings: MountSettings, _ folder: ContainerFolder, _ signIn: SignIn?, _ identity: DeviceIdentity,
        _ pool: BlockingPool, _ logger: Logger
    ) throws -> (client: CloudClient, service: any CloudService, embedded: EmbeddedCloud?) {
        if let signIn {
            let address = try CloudAddress(signIn.url, certificates: signIn.certificates)
            let client = try CloudClient(
                address, container: settings.container, token: signIn.token, device: identity.id,
                deviceName: identity.name, proof: DigestMemory(folder.account, url: signIn.url).proof(pool, logger))
            return (client, client, nil)
        }
        let timekeeper = SystemTimekeeper()
        let cloud = EmbeddedCloud(
            data: try CloudFolder.path(option: nil), pool: pool, timekeeper: timekeeper,
            logger: Self.logger(logger, "cloud"))
        let client = try CloudClient(
            .unixSocket(path: cloud.socket), container: settings.container, device: identity.id,
            deviceName: identity.name)
        return (client, EmbeddedCloudService(base: client, cloud: cloud, timekeeper: timekeeper), cloud)
    }

    private static func logger(_ base: Logger, _ label: String) -> Logger {
        var logger = base
        logger[metadataKey: "part"] = "\(label)"
        return logger
    }

    // MARK: Running

    /// Serves until the mount is gone, then shuts everything down.
    func run() async throws {
        let space = RememberedSpace(parts.folder, parts.timekeeper)
        do { try space.recall(parts.engine.connection) } catch {
            parts.logger.warning(
                "cannot read the stored account usage; the cloud reports it again", metadata: ["reason": "\(error)"])
        }
        let engine = Task { [parts] in await parts.engine.run() }
        let pump = EventPump(controller)
        let events = Task { try await pump.run() }
        let watcher = QueryPump(controller)
        let queries = Task { try await watcher.run() }
        let merges = Task { [controller] in await controller.merges.run() }
        let housekeeping = Task { [parts] in try await Housekeeping(parts: parts, space: space).run() }
        let outcome = await serve()
        lock.markEnding()
        events.cancel()
        queries.cancel()
        housekeeping.cancel()
        merges.cancel()
        parts.fileSystem.flush()
        // If this fails, the next start asks the cloud.
        try? space.note(parts.engine.connection.status, isLast: true)
        do { try parts.fileSystem.flushJournal() } catch {
            parts.logger.warning(
                "cannot move contents to their files; the next start does it", metadata: ["reason": "\(error)"])
        }
        parts.fileSystem.endPreparation()
        parts.fileSystem.endUnnamed()
        engine.cancel()
        await Self.end(of: [engine, merges], within: Self.endLimit)
        await controller.stops.waitUntilIdle(atMost: Self.unmountLimit)
        await server.stop()
        await parts.client.shutdown()
        do { try parts.engine.tidyUp() } catch {
            parts.logger.warning("cannot remove unused files; the next start does it", metadata: ["reason": "\(error)"])
        }
        try parts.index.close()
        try outcome.get()
    }

    /// Serves until the mount is gone. Serving blocks, so it has a thread of its own.
    private func serve() async -> Result<Void, any Error> {
        let thread = BlockingPool(name: "fuse-loop", threads: 1)
        let serving = Task { [session, end = controller.end] in
            do {
                try await thread.run { try session.run() }
                end.note(.success(()))
            } catch {
                end.note(.failure(error))
            }
        }
        defer { serving.cancel() }
        do {
            try await controller.end.wait()
            return .success(())
        } catch {
            return .failure(error)
        }
    }

    /// Ends the mount even while programs use it: after a moment they get errors.
    func terminate() {
        lock.markEnding()
        controller.indexGuard.start(limit: HeldIndexGuard.terminationLimit)
        session.stop()
        controller.end.force(after: Self.terminationLimit)
    }

    /// Waits until the tasks have ended, or for `limit`. (A task group would wait for all of them: waiting for another
    /// task's value does not end by cancellation.)
    private static func end(of tasks: [Task<Void, Never>], within limit: Duration) async {
        let (ends, source) = AsyncStream.makeStream(of: Never.self)
        let waiting = Task {
            for task in tasks { await task.value }
            source.finish()
        }
        let clock = Task {
            try? await Sleepers.shared.sleep(for: limit)
            source.finish()
        }
        for await _ in ends {}
        waiting.cancel()
        clock.cancel()
    }
}

extension MountSettings.Policy {
    var forEngine: SyncConfiguration.Policy {
        switch self {
        case .lazy: .lazy
        case .eager: .eager
        }
    }
}

/// Periodic work while a mount runs.
struct Housekeeping: Sendable {
    let parts: MountParts
    let space: RememberedSpace

    /// Interval of checkpoints of the index and of writing batches.
    private static let interval = Duration.seconds(5)

    func run() async throws {
        var watch = IdleWatch()
        while true {
            try await parts.timekeeper.sleep(for: Self.interval)
            // `df` and programs get the last known usage without waiting, so keep it current.
            if parts.engine.connection.isUsageOutdated {
                Task { [engine = parts.engine] in await engine.refreshUsage() }
            }
            await attempt { try space.note($0.engine.connection.status) }
            await attempt { $0.fileSystem.flush() }
            // A content that cannot be written must not keep the index from its checkpoint.
            await attempt { try $0.fileSystem.flushJournal() }
            await attempt { try $0.index.checkpoint() }
            guard watch.beginsToRest(ProcessHost.computedTime) else { continue }
            await attempt {
                $0.index.releaseMemory()
                // The allocator keeps freed memory, after much work for hours.
                ProcessHost.returnMemory()
            }
        }
    }

    private func attempt(_ work: @escaping @Sendable (MountParts) throws -> Void) async {
        do { try await parts.pool.run { [parts] in try work(parts) } } catch is CancellationError {
            // The mount ends, which `run` notices.
        } catch {
            parts.logger.error("housekeeping failed", metadata: ["error": "\(error)"])
        }
    }
}
