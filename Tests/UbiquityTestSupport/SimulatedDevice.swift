internal import Logging
package import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySync
internal import UbiquitySystem
internal import UbiquityVFS

/// A device in a simulated world: an index and backing files on a disk of its own, an engine, a file system, and a user
/// who acts on files like programs.
///
/// A crash freezes all tasks where they wait. The next start reads the disk as it is then, after a power loss without
/// some of the unsynced changes.
package final class SimulatedDevice: Sendable {
    package struct Settings: Sendable {
        package var policy = SyncConfiguration.Policy.lazy
        /// The lead of its clock over the cloud's.
        package var skew = Duration.zero
        package var cacheLimit: Int64?
        package var diskFloor: Int64
        package var allowsMassDelete: Bool
        package var trustsPrivileges: Bool
        /// See `SyncConfiguration.completesDeletions`.
        package var completesDeletions = true
        /// See `SyncConfiguration.checksRecords`.
        package var checksRecords = true
        /// Many times the need of a simulated container.
        static let settlingSteps = 50_000
        /// Whether jobs wait a moment for a thread. Programs continue during that time.
        package var isBusy = false
        /// See `SyncConfiguration.changesPerCommit`. Nil: the default.
        package var changesPerCommit: Int?

        package init(
            policy: SyncConfiguration.Policy = .lazy, skew: Duration = .zero, cacheLimit: Int64? = nil,
            diskFloor: Int64 = 0, allowsMassDelete: Bool = false, trustsPrivileges: Bool = false
        ) {
            self.policy = policy
            self.skew = skew
            self.cacheLimit = cacheLimit
            self.diskFloor = diskFloor
            self.allowsMassDelete = allowsMassDelete
            self.trustsPrivileges = trustsPrivileges
        }
    }

    package let name: String
    package let id: DeviceID
    package let world: VirtualWorld
    package let timekeeper: VirtualTimekeeper
    package let disk: SimulatedDisk
    package let link: SimulatedLink
    package let ledger = Ledger()
    /// The caller of all changes.
    let caller: Caller
    private let settings: Settings
    /// The current life; nil while the device is down.
    private let running = Lock<DeviceLife?>(nil)
    /// All lives so far: their tasks are cancelled at the end of the world.
    private let lives = Lock<[DeviceLife]>([])
    private let boots = Lock(1)

    init(
        _ name: String, in world: VirtualWorld, link: SimulatedLink, disk: SimulatedDisk,
        timekeeper: VirtualTimekeeper, process: Int32, settings: Settings
    ) {
        self.name = name
        self.world = world
        self.link = link
        self.disk = disk
        self.settings = settings
        caller = Caller(uid: 1000, gid: 1000, pid: process)
        self.timekeeper = timekeeper
        var generator = SourcedGenerator(world.random)
        id = DeviceID(using: &generator)
    }

    /// The lead of its clock over the cloud's.
    var skew: Duration { settings.skew }
    var isBusy: Bool { settings.isBusy }

    /// The current life; throws while the device is down.
    var life: DeviceLife {
        get throws {
            guard let life = running.withLock({ $0 }) else { throw UbiquityError(.stale, "device \(name) is down") }
            return life
        }
    }

    package var engine: SyncEngine { get throws { try life.engine } }
    package var index: ItemIndex { get throws { try life.index } }
    package var store: ContentStore { get throws { try life.store } }

    /// The executor of its tasks; nil while it is down.
    var executor: VirtualExecutor? { running.withLock { $0?.executor } }

    package var isRunning: Bool { running.withLock { $0 != nil } }

    // MARK: Life

    package func start() throws {
        let generation = disk.generation
        let number = lives.withLock { $0.count + 1 }
        world.trace.note("\(world.uptime) \(name) starts")
        let life = try DeviceLife(self, number: number, configuration)
        lives.withLock { $0.append(life) }
        // The device may have died during its start.
        guard disk.generation == generation else { return life.end() }
        running.withLock { $0 = life }
        life.run()
    }

    private var configuration: SyncConfiguration {
        var result = SyncConfiguration(
            device: id, deviceName: name, policy: settings.policy, cacheLimit: settings.cacheLimit,
            diskFloor: settings.diskFloor, boot: [UInt8(truncatingIfNeeded: boots.withLock { $0 })],
            owner: (1000, 1000))
        result.allowsMassDelete = settings.allowsMassDelete
        result.trustsPrivileges = settings.trustsPrivileges
        result.completesDeletions = settings.completesDeletions
        result.checksRecords = settings.checksRecords
        result.settlingSteps = Settings.settlingSteps
        result.changesPerCommit = settings.changesPerCommit ?? result.changesPerCommit
        return result
    }

    /// Shuts down like a daemon that is asked to end. Throws if that takes longer than the limit.
    package func stop(within limit: Duration) async throws {
        world.trace.note("\(world.uptime) \(name) stops")
        try await life.stop(within: limit)
        crash()
    }

    /// `kill -9`: all tasks stop, their clean-up too.
    /// - Parameter powerLoss: the machine restarts as well, and unsynced changes may be lost.
    package func crash(powerLoss: Bool = false) {
        guard isRunning else { return }
        do { try disk.stop(powerLoss ? .powerLoss : .kill) } catch {
            world.trace.note("\(world.uptime) \(name)'s disk cannot be copied: \(error)")
        }
        noteCrash(powerLoss: powerLoss)
    }

    /// Crashes at the n-th write to its disk from now.
    package func crash(afterWrites writes: Int, powerLoss: Bool) {
        disk.crash(powerLoss ? .powerLoss : .kill, afterWrites: writes) { [weak self] in
            self?.noteCrash(powerLoss: powerLoss)
        }
    }

    private func noteCrash(powerLoss: Bool) {
        let ended = running.withLock { running in
            defer { running = nil }
            return running
        }
        ended?.end()
        if powerLoss {
            boots.withLock { $0 += 1 }
            ledger.losePower()
        }
        world.trace.note("\(world.uptime) \(name) \(powerLoss ? "loses power" : "crashes")")
    }

    /// Cancels all tasks at the end of the world.
    func letGo() {
        running.withLock { $0 = nil }
        for life in lives.withLock({ $0 }) { life.letGo() }
    }

    /// The contents closed here that must be at the cloud: all but those of ignored files.
    func required() throws -> Set<ChunkID> {
        let index = try index
        return try ledger.required { content in try index.read { try $0.row(content: content) }?.isExcluded ?? false }
    }

    /// Whether nothing is pending in either direction.
    package func isIdle() throws -> Bool { try engine.summary().isIdle }
}
