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

/// Makes the parts of a mount and binds them to each other. `Mount` and `Doctor` call it once.
struct MountAssembly {
    /// Threads for disk and index calls of the engine and the local socket. More than cores, because they wait for the
    /// disk; few, because each may hold a chunk.
    private static let diskThreads = 8
    /// In bytes; only the used part takes memory. Some work recurses as deep as folders are nested (1000), with frames
    /// of up to 20 KB a level in a debug build.
    private static let diskStack = 64 * 1024 * 1024

    private let settings: MountSettings
    private let folder: ContainerFolder
    private let logger: Logger
    private let account: DeviceAccount
    /// The folder that is the mount's source.
    private let home: ContainerFolder

    /// - Parameter home: nil for `folder`.
    init(
        _ settings: MountSettings, _ folder: ContainerFolder, _ logger: Logger, account: DeviceAccount,
        home: ContainerFolder? = nil
    ) {
        self.settings = settings
        self.folder = folder
        self.logger = logger
        self.account = account
        self.home = home ?? folder
    }

    /// - Parameter features: those of the session; nil if it does not exist yet.
    func makeParts(
        _ kernel: any KernelCache, _ log: LogFile, numbers: NodeNumbers = .first, features: KernelFeatures? = nil
    ) throws -> MountParts {
        let serving = try settings.serving()
        let idle = try makeIdleParts()
        let index = idle.index, contents = idle.contents, engine = idle.engine, pool = idle.pool
        let timekeeper = SystemTimekeeper()
        let tree = ItemTree(index: index)
        let passthrough = features?.passthrough
            ?? KernelPassthrough(refusal: settings.passthroughRefusal) { try contents.temporaryFile() }
        let coordination = Coordination(
            isStrict: settings.isStrict, surroundings: IndexSurroundings(index: index), timekeeper: timekeeper)
        let eviction = AskingEviction(engine: engine, index: index, coordination: coordination, pool: pool)
        let options = try UserConfiguration.load()
        let fileSystem = try ContainerFileSystem(
            FileSystemParts(
                index: index, contents: contents, materializer: engine,
                transfers: EngineTransfers(
                    engine: engine, index: index, deviceFolder: settings.deviceFolder,
                    container: settings.container),
                control: EngineControl(engine: engine, eviction: eviction, tree: tree, pool: pool),
                versions: EngineVersions(engine: engine), kernel: kernel, passthrough: passthrough,
                timekeeper: timekeeper, container: settings.container, logger: logger.part("files"),
                coordination: coordination,
                backgroundReaders: BackgroundReaders(names: options.backgroundReaders),
                noAccessTimeReaders: NoAccessTimeReaders(names: options.noAccessTimeReaders),
                preparation: BlockingPool(name: "new-files", threads: 1),
                syncing: BlockingPool(name: "sync-index", threads: 1), delaysCloses: true, vacancy: account.vacancy,
                showsConflicts: settings.showsConflicts || options.showsConflicts),
            owner: (uid: ProcessHost.userID, gid: ProcessHost.groupID))
        let presenters = PresenterPump(coordination, index)
        let previews = EarlyPreviews(options.earlyPreviews, index, engine, logger.part("previews"))
        engine.bind(
            ItemUsers(
                fileSystem: fileSystem, index: index, coordination: coordination, presenters: presenters, pool: pool))
        // Repair interrupted operations of the last run before the mount shows them.
        let setAside = try engine.recover()
        // A content that stays costs space only until the next start.
        try? FileSystem.removeTree(folder.incoming)
        previews.start()
        try fileSystem.adoptWriters()
        fileSystem.beginJournal(BlockingPool(name: "keep-contents", threads: 1))
        let rings = settings.rings()
        return MountParts(
            idle: idle, settings: settings, folder: folder, home: home, fileSystem: fileSystem,
            claimedFileSystem: ClaimedFileSystem(fileSystem, numbers: numbers),
            kernel: features ?? KernelFeatures(
                passthrough: passthrough, rings: RequestRings(refusal: rings.refusal, policy: serving)),
            coordination: coordination,
            presenters: presenters, previews: previews, keyValues: try makeKeyValues(idle, options),
            timekeeper: timekeeper, startedAt: timekeeper.now(), logger: logger, log: log,
            notices: (setAside == 0 ? [] : [Self.lostIndexNotice(setAside, contents)])
                + contents.movedAside.map(Self.folderNotice) + Self.lowDiskNotice(engine)
                + (rings.notice.map { [$0] } ?? []))
    }

    /// The key-value stores, unless the configuration turns them off, or the mount is between two accounts.
    private func makeKeyValues(_ idle: IdleParts, _ options: UserConfiguration) throws -> MountKeyValues? {
        guard options.hasKeyValues(of: settings.container),
            let owner = try account.keyValueAccount(ofDevice: settings.deviceFolder)
        else { return nil }
        let client = idle.client.keyValues
        let service: any KeyValueService
        if let embedded = idle.service as? EmbeddedCloudService {
            service = EmbeddedKeyValues(base: client, embedded: embedded)
        } else {
            service = client
        }
        return try MountKeyValues(idle, settings, owner, service, logger.part("key-values"))
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
    func makeIdleParts() throws -> IdleParts {
        let timekeeper = SystemTimekeeper(), random = SystemRandom()
        let pool = BlockingPool(name: "disk", threads: Self.diskThreads, stackSize: Self.diskStack)
        let owner = (uid: ProcessHost.userID, gid: ProcessHost.groupID)
        let options = try UserConfiguration.load()
        for complaint in options.complaints {
            logger.warning("a line of the configuration is ignored", metadata: ["reason": "\(complaint)"])
        }
        let index = try ItemIndex(
            path: folder.index, timekeeper: timekeeper, random: random, ignoring: options.ignoring,
            packages: options.packages, owner: owner, statementThread: BlockingPool(name: "index", threads: 1),
            spins: try settings.serving().uses(.spin))
        index.keepReserve()
        let boot = Array(try Boot.id(ofFolder: folder.path).utf8)
        let room = ItemIndex.journalRoom(ofIndexAt: folder.index)
        let contents = try ContentStore(
            stateFolder: folder.path,
            journal: ContentJournal(path: room.path, start: room.start, boot: boot, random: random))
        // Without an index it is unknown which contents are needed: they are set aside with the others.
        let isNew = try index.read { try $0.lastBoot() } == nil
        try Self.restoreKept(into: contents, logger) { id in try isNew || index.read { try $0.needsWhole(id) } }
        let identity = try DeviceIdentity.load(deviceFolder: settings.deviceFolder, name: settings.deviceName)
        let cloud = try makeCloud(identity, pool)
        var configuration = SyncConfiguration(
            device: identity.id, deviceName: identity.name, policy: settings.policy.forEngine,
            cacheLimit: settings.cacheLimit,
            diskFloor: try settings.diskFloor ?? MountSettings.defaultDiskFloor(diskBytes: contents.diskBytes()),
            boot: boot, owner: owner)
        configuration.allowsMassDelete = settings.allowsMassDelete
        configuration.appVersions = folder.appVersions
        configuration.pausedItems = folder.pausedItems
        configuration.trustsPrivileges = settings.trustsPrivileges || options.trustsPrivileges
        let engine = SyncEngine(
            index: index, store: contents, service: cloud.service, configuration: configuration, timekeeper: timekeeper,
            random: random, pool: pool, logger: logger.part("sync"))
        return IdleParts(
            account: account.name, identity: identity, index: index,
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
    private func makeCloud(
        _ identity: DeviceIdentity, _ pool: BlockingPool
    ) throws -> (client: CloudClient, service: any CloudService, embedded: EmbeddedCloud?) {
        if account.isVacant {
            // Nothing listens there: an empty container has no cloud.
            let client = try CloudClient(
                .unixSocket(path: Path.join(folder.path, "no-cloud.sock")), container: settings.container,
                device: identity.id, deviceName: identity.name)
            return (client, client, nil)
        }
        if let signIn = account.signIn {
            let address = try CloudAddress(signIn.url, certificates: signIn.certificates)
            let client = try CloudClient(
                address, container: settings.container, token: signIn.token, device: identity.id,
                deviceName: identity.name, proof: DigestMemory(folder.account, url: signIn.url).proof(pool, logger))
            return (client, client, nil)
        }
        let timekeeper = SystemTimekeeper()
        let cloud = EmbeddedCloud(
            data: try CloudFolder.path(option: nil), pool: pool, timekeeper: timekeeper,
            logger: logger.part("cloud"))
        let client = try CloudClient(
            .unixSocket(path: cloud.socket), container: settings.container, device: identity.id,
            deviceName: identity.name)
        return (client, EmbeddedCloudService(base: client, cloud: cloud, timekeeper: timekeeper), cloud)
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

extension Logger {
    /// A logger whose lines name the part of the program.
    func part(_ label: String) -> Logger {
        var logger = self
        logger[metadataKey: "part"] = "\(label)"
        return logger
    }
}
