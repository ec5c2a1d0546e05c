internal import Logging
package import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySync
internal import UbiquitySystem

/// A device in a simulated world: an index in memory, backing files in a folder of its own, an engine, and a user who
/// does with files what the file system would do for programs.
///
/// A crash freezes the engine's tasks where they wait; what is in the index and on the disk stays.
package final class SimulatedDevice: Sendable {
    package struct Settings: Sendable {
        package var policy = SyncConfiguration.Policy.lazy
        /// How far its clock is ahead of the cloud's.
        package var skew = Duration.zero
        package var cacheLimit: Int64?

        package init(
            policy: SyncConfiguration.Policy = .lazy, skew: Duration = .zero, cacheLimit: Int64? = nil
        ) {
            self.policy = policy
            self.skew = skew
            self.cacheLimit = cacheLimit
        }
    }

    private struct Running {
        var engine: SyncEngine
        var executor: VirtualExecutor
        var task: Task<Void, Never>
    }

    package let name: String
    package let id: DeviceID
    package let world: VirtualWorld
    package let timekeeper: VirtualTimekeeper
    package let index: ItemIndex
    package let store: ContentStore
    package let link: SimulatedLink
    package let ledger = Ledger()
    private let folder: String
    private let settings: Settings
    private let running = Lock<Running?>(nil)
    private let boots = Lock(1)
    private let starts = Lock(0)

    package init(
        _ name: String, in world: VirtualWorld, link: SimulatedLink, folder: String, settings: Settings
    ) throws {
        self.name = name
        self.world = world
        self.link = link
        self.folder = folder
        self.settings = settings
        timekeeper = VirtualTimekeeper(world, skew: settings.skew)
        var generator = SourcedGenerator(world.random)
        id = DeviceID(using: &generator)
        try FileSystem.makeDirectories(folder)
        store = try ContentStore(stateFolder: folder)
        index = try ItemIndex(path: nil, timekeeper: timekeeper, random: world.random, owner: (1000, 1000))
    }

    /// The engine; throws while the device is down.
    package var engine: SyncEngine {
        get throws {
            guard let engine = running.withLock({ $0?.engine }) else {
                throw UbiquityError(.stale, "device \(name) is down")
            }
            return engine
        }
    }

    /// Where its tasks run now; nil while it is down.
    var executor: VirtualExecutor? { running.withLock { $0?.executor } }

    package var isRunning: Bool { running.withLock { $0 != nil } }

    // MARK: Life

    package func start() throws {
        let number = starts.withLock { $0 += 1; return $0 }
        let executor = VirtualExecutor(world: world, name: "\(name)\(number)")
        let engine = SyncEngine(
            index: index, store: store, service: link, configuration: configuration, timekeeper: timekeeper,
            random: world.random, pool: BlockingPool(pausing: { [world] in await world.pause() }),
            logger: Logger(label: name, factory: { [world, name] _ in TraceLogHandler(world: world, device: name) }),
            executor: executor)
        try engine.recover()
        let task = Task(executorPreference: executor) { await engine.run() }
        running.withLock { $0 = Running(engine: engine, executor: executor, task: task) }
        world.trace.note("\(world.uptime) \(name) starts")
    }

    private var configuration: SyncConfiguration {
        SyncConfiguration(
            device: id, deviceName: name, policy: settings.policy, cacheLimit: settings.cacheLimit, diskFloor: 0,
            boot: [UInt8(truncatingIfNeeded: boots.withLock { $0 })], owner: (1000, 1000))
    }

    /// `kill -9`: nothing of it runs on, not even what cleans up.
    /// - Parameter powerLoss: the machine starts anew as well.
    package func crash(powerLoss: Bool = false) {
        let stopped = running.withLock { running in
            defer { running = nil }
            return running
        }
        stopped?.executor.freeze()
        stopped?.task.cancel()
        if powerLoss { boots.withLock { $0 += 1 } }
        world.trace.note("\(world.uptime) \(name) crashes")
    }

    package func removeFolder() { try? FileSystem.removeTree(folder) }

    /// Whether nothing waits either way.
    package func isIdle() throws -> Bool { try engine.summary().isIdle }
}

/// The engine's log, in the trace.
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
        world.trace.note("\(world.uptime) \(device): \(event.message)\(details)")
    }
}
