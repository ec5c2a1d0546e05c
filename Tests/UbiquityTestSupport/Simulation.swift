internal import CSimulatedDisk
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// A cloud and some devices in virtual time, driven by a test.
///
///     try Simulation.run(seed: 1, devices: ["a", "b"]) { world in
///         try await world.a.create("note.txt", Array("hello".utf8))
///         try await world.settle()
///         #expect(try await world.b.read("note.txt") == Array("hello".utf8))
///         try await world.check()
///     }
package final class Simulation: Sendable {
    /// Virtual time after which every device must be idle.
    package static let settlingTime = Duration.seconds(30 * 60)

    package let seed: UInt64
    package let world: VirtualWorld
    package let cloud: SimulatedCloud
    package let devices: [SimulatedDevice]
    /// A lying service between the devices and the cloud, in some worlds. It is honest at first.
    package let hostileCloud: HostileCloud?

    package var random: SeededRandom { world.random }
    package var a: SimulatedDevice { devices[0] }
    package var b: SimulatedDevice { devices[1] }
    package var c: SimulatedDevice { devices[2] }

    private let folder: String
    private let cloudDisk: SimulatedDisk?
    /// An invariant that is checked from time to time.
    private let watchdog = Lock<Watchdog?>(nil)

    /// In a structure: a bare closure in a generic type is wrapped once more at each access.
    private struct Watchdog {
        var check: @Sendable () throws -> Void
    }

    private init(seed: UInt64, _ options: Options, folder: String) throws {
        self.seed = seed
        self.folder = folder
        let world = VirtualWorld(seed: seed)
        guard let container = ContainerID("simulation") else {
            throw UbiquityError(.invalidName, "the simulated container's name is not valid")
        }
        let cloud = SimulatedCloud(world: world, container: container)
        cloudDisk = try options.hasCloudOnDisk
            ? SimulatedDisk(
                base: "\(folder)/cloud", random: SeededRandom(seed &+ 99), timekeeper: VirtualTimekeeper(world),
                losesPower: true) : nil
        if let cloudDisk { cloud.keep(on: cloudDisk, world: world) }
        self.world = world
        self.cloud = cloud
        let hostileCloud = options.isCloudHostile ? HostileCloud(cloud, world: world, seed: seed) : nil
        self.hostileCloud = hostileCloud
        let service: any CloudService = hostileCloud ?? cloud
        devices = try options.devices.enumerated().map { number, name in
            let settings = options.settings[name] ?? SimulatedDevice.Settings()
            let timekeeper = VirtualTimekeeper(world, skew: settings.skew)
            let disk = try SimulatedDisk(
                base: "\(folder)/\(name)", random: SeededRandom(seed &+ UInt64(number) &* 0x9E37),
                timekeeper: timekeeper, losesPower: options.losesPower)
            return SimulatedDevice(
                name, in: world, link: SimulatedLink(service, world: world, name: name), disk: disk,
                timekeeper: timekeeper, process: options.process, settings: settings)
        }
    }

    /// The configuration of a world.
    package struct Options: Sendable {
        package var devices: [String]
        /// By the name of the device.
        package var settings: [String: SimulatedDevice.Settings]
        /// Whether a machine may lose power: recording the durable state takes time.
        package var losesPower: Bool
        /// Whether the cloud is the real one on a disk, which may crash.
        package var hasCloudOnDisk: Bool
        /// The one process that makes all changes; 0 if each change has another process.
        package var process: Int32
        /// Whether a `HostileCloud` is between the devices and the cloud.
        package var isCloudHostile = false

        package init(
            devices: [String] = ["a", "b"], settings: [String: SimulatedDevice.Settings] = [:],
            losesPower: Bool = false, hasCloudOnDisk: Bool = false, process: Int32 = 0
        ) {
            self.devices = devices
            self.settings = settings
            self.losesPower = losesPower
            self.hasCloudOnDisk = hasCloudOnDisk
            self.process = process
        }
    }

    /// Runs a scenario on the calling thread, which is blocked meanwhile. A failure names its seed.
    /// - Returns: the hash of the trace, to compare two runs.
    @discardableResult
    package static func run(
        seed: UInt64, _ options: Options, _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) throws -> UInt64 {
        let folder = try temporaryFolder()
        defer { simulated_disk_remove(folder) }
        let simulation = try Simulation(seed: seed, options, folder: folder)
        let watch = DiskWatch(folder: folder, disks: simulation.devices.map(\.disk) + [simulation.cloudDisk].compactMap { $0 })
        do {
            try watch.watching {
                try simulation.world.run(
                    {
                        try await simulation.cloud.start()
                        for device in simulation.devices { try device.start() }
                        try await scenario(simulation)
                    }, end: { for device in simulation.devices { device.letGo() } })
            }
        } catch {
            throw SimulationFailure(seed: seed, reason: "\(error)", trace: simulation.world.trace.text)
        }
        return simulation.world.trace.hash
    }

    @discardableResult
    package static func run(
        seed: UInt64, devices: [String] = ["a", "b"], settings: [String: SimulatedDevice.Settings] = [:],
        _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) throws -> UInt64 {
        try run(seed: seed, Options(devices: devices, settings: settings), scenario)
    }

    private static func temporaryFolder() throws -> String {
        var generator = SystemRandomNumberGenerator()
        let name = "ubiquity-simulation-" + String(generator.next(), radix: 16)
        let folder = try FileSystem.exists("/dev/shm") ? "/dev/shm/\(name)" : "/tmp/\(name)"
        try FileSystem.makeDirectory(folder)
        return folder
    }

    // MARK: Time

    package func sleep(_ duration: Duration) async throws { try await world.sleep(for: duration) }

    /// Repairs the network, resumes paused devices, and starts devices that are down.
    package func heal() async throws {
        try await cloud.heal()
        cloud.setQuota(.max)
        for device in devices {
            device.link.setConditions(.perfect)
            device.link.setAway(false)
            device.disk.heal()
            if device.isRunning { try device.setPaused(false) } else { try device.start() }
        }
    }

    /// Waits until all devices are idle. Ignores devices that are down, paused or cut off.
    package func settle(_ waited: [SimulatedDevice]? = nil) async throws {
        let start = world.uptime, end = start + Self.settlingTime
        var quiet = 0
        while world.uptime < end {
            try watch()
            quiet = try await isSettled(waited ?? devices.filter(\.isRunning)) ? quiet + 1 : 0
            // Twice, because one device's upload may be news to another.
            if quiet == 2 { return }
            // The checks become rarer with time.
            let elapsed = world.uptime - start
            try await sleep(max(.milliseconds(100 + 10 * random.below(10)), min(elapsed / 20, .seconds(10))))
        }
        throw UbiquityError(.timedOut, "not settled after \(Self.settlingTime): \(unsettled())")
    }

    private func isSettled(_ devices: [SimulatedDevice]) async throws -> Bool {
        let revision = try await cloud.revision()
        for device in devices {
            guard try device.isIdle(), try device.index.read({ try $0.feedPosition() }).revision == revision else {
                return false
            }
        }
        return true
    }

    private func unsettled() -> String {
        devices.map { device in
            guard let engine = try? device.engine, let summary = try? engine.summary() else {
                return "\(device.name) down"
            }
            let pending = (try? engine.status.pendingUploads(limit: 10))?.map {
                "\($0.row.summary) \($0.problem?.error.description ?? "")"
            }
            let waiting = try? device.index.read { reader in
                try [SettlingState.waiting, .awaitingContent, .awaitingParent].flatMap { state in
                    try reader.records(state, limit: 10).map { id in
                        "\(state) \(try reader.remote(id: id)?.summary ?? "?"), \(try reader.row(id: id)?.summary ?? "-")"
                    }
                } + reader.wanted(eager: 0, after: ItemKey(0), limit: 10).map { "wanted \($0.summary)" }
            }
            return "\(device.name): \(summary), pending \(pending ?? []), waiting \(waiting ?? [])"
        }.joined(separator: "\n")
    }

    // MARK: Checks

    /// Sets an invariant that must always hold.
    package func setWatchdog(_ check: @escaping @Sendable () throws -> Void) { watchdog.withLock { $0 = Watchdog(check: check) } }

    func watch() throws { try watchdog.withLock { $0 }?.check() }

    /// All devices have the same tree, and nothing is lost. Call this when all devices are idle.
    package func check() async throws {
        let truth = try await cloud.picture()
        for device in devices {
            let picture = try await device.picture(reading: true)
            let differences = picture.differences(from: truth)
            guard differences.isEmpty else {
                throw UbiquityError(
                    .damaged, "\(device.name) differs from the cloud:\n" + differences.joined(separator: "\n"))
            }
            try device.index.check()
        }
        try await settle()
        try await checkLedgers()
    }

    private func checkLedgers() async throws {
        let kept = try await cloud.contents()
        for device in devices {
            let lost = try device.required().subtracting(kept)
            guard lost.isEmpty else {
                throw UbiquityError(.damaged, "contents closed on \(device.name) are lost: \(lost.sorted())")
            }
            let forgotten = device.link.acknowledged.filter { !kept.contains($0.key) }
            guard forgotten.isEmpty else {
                let names = forgotten.values.sorted()
                throw UbiquityError(.damaged, "contents the cloud acknowledged to \(device.name) are lost: \(names)")
            }
        }
    }
}

extension ItemRow {
    fileprivate var summary: String {
        "\(id.short) \(entry.map { "\($0.parent)/\($0.name)" } ?? "nowhere") dirty \(dirty.rawValue) base \(dirtyBase) "
            + "\(contentState) version \(version?.short ?? "-") flags \(flags.rawValue)"
    }
}

/// A scenario that failed, with all data to repeat it.
package struct SimulationFailure: Error, CustomStringConvertible {
    package var seed: UInt64
    package var reason: String
    package var trace: String

    /// The operations of users and the faults of devices, without the messages between devices.
    package var history: String {
        trace.split(separator: "\n").filter { line in
            line.contains(" user of ") || line.contains(" starts") || line.contains(" crashes")
                || line.contains(" loses power") || line.firstMatch(of: /^[0-9.]+ seconds [a-e]: [a-zA-Z]+$/) != nil
        }.joined(separator: "\n")
    }

    /// The end of the trace and the command that repeats the run.
    package var description: String {
        "\(trace)\n\(reason)\nseed \(seed): repeat with scripts/simulate --seed \(seed)"
    }
}
