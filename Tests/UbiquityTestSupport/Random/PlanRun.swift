internal import UbiquityCore
internal import UbiquitySystem

/// Carries out a plan and checks the outcome.
package struct PlanRun: Sendable {
    /// A program that waits longer is given up.
    private static let patience = Duration.seconds(60)
    /// Interval at which the invariants are checked.
    private static let watchInterval = Duration.milliseconds(200)

    package let plan: Plan
    /// A fault put in on purpose, which must be found.
    package let fault: PlantedFault?

    package init(_ plan: Plan, fault: PlantedFault? = nil) {
        self.plan = plan
        self.fault = fault
    }

    /// - Returns: the hash of the trace.
    /// - Throws: `SimulationFailure`.
    @discardableResult
    package func run() throws -> UInt64 {
        let packages = PackageWatch()
        return try Simulation.run(seed: plan.seed, options) { world in
            fault?.plant(in: world)
            world.setWatchdog { [weak world] in try packages.check(world?.devices ?? []) }
            switch plan.profile {
            case .turns: try await Turns(world, seed: plan.seed).run()
            case .pairs: try await Pairs(world, seed: plan.seed).run()
            case .folders: try await Folders(world, seed: plan.seed).run()
            case .hostile: try await Hostility(world, seed: plan.seed).run()
            case .masses: try await Masses(world, seed: plan.seed).run()
            default: for round in 0..<plan.rounds { try await run(round, world, packages) }
            }
        }
    }

    /// Faults of the cloud are planted in the cloud that keeps everything in memory.
    private var options: Simulation.Options {
        var options = plan.options
        if fault != nil { options.hasCloudOnDisk = false }
        if fault == .forgottenDeletion {
            for name in options.devices { options.settings[name, default: .init()].completesDeletions = false }
        }
        if fault == .uncheckedRecords {
            for name in options.devices { options.settings[name, default: .init()].checksRecords = false }
        }
        return options
    }

    private func run(_ round: Int, _ world: Simulation, _ packages: PackageWatch) async throws {
        for device in world.devices.dropFirst(plan.profile.devicesThatStay) { device.link.setAway(true) }
        let steps = plan.steps.filter { $0.round == round }
        let running = Lock(2 * world.devices.count)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, device) in world.devices.enumerated() {
                let own = steps.filter { $0.device == number }
                group.addTask {
                    defer { running.withLock { $0 -= 1 } }
                    try await perform(own.filter(\.action.isProgram), device, world, packages)
                }
                group.addTask {
                    defer { running.withLock { $0 -= 1 } }
                    try await befall(own.filter { !$0.action.isProgram }, device, world, packages)
                }
            }
            group.addTask {
                while running.withLock({ $0 > 0 }) {
                    try await world.sleep(Self.watchInterval)
                    try world.watch()
                }
            }
            try await group.waitForAll()
        }
        try await world.heal()
        try await world.settle()
        try await world.check()
    }

    private func perform(
        _ steps: [Step], _ device: SimulatedDevice, _ world: Simulation, _ packages: PackageWatch
    ) async throws {
        let start = world.world.uptime
        for step in steps {
            try await world.sleep(start + step.time - world.world.uptime)
            guard device.isRunning else { continue }
            try await device.attempt(within: Self.patience) {
                try await Performer(device, seed: step.seed, packages).perform(step.action)
            }
        }
    }

    private func befall(
        _ steps: [Step], _ device: SimulatedDevice, _ world: Simulation, _ packages: PackageWatch
    ) async throws {
        let start = world.world.uptime
        for step in steps {
            try await world.sleep(start + step.time - world.world.uptime)
            world.world.trace.note("\(world.world.uptime) \(device.name): \(step.action.rawValue)")
            // A package that was just saved may be lost in part.
            if step.action == .losePower || step.action == .losePowerAtWrite { packages.tear(device) }
            try befall(step, device, world)
        }
    }

    private func befall(_ step: Step, _ device: SimulatedDevice, _ world: Simulation) throws {
        let random = SeededRandom(step.seed)
        switch step.action {
        case .goodNetwork: device.link.setConditions(.perfect)
        case .badNetwork: device.link.setConditions(.bad)
        case .away: device.link.setAway(true)
        case .back: device.link.setAway(false)
        case .pause: if device.isRunning { try device.setPaused(true) }
        case .resume: if device.isRunning { try device.setPaused(false) }
        case .kill: device.crash()
        case .losePower: device.crash(powerLoss: true)
        case .killAtWrite: device.crash(afterWrites: 1 + random.below(300), powerLoss: false)
        case .losePowerAtWrite: device.crash(afterWrites: 1 + random.below(300), powerLoss: true)
        case .start: startAgain(device, world)
        case .fillDisk: device.disk.setFull(true)
        case .freeDisk: device.disk.setFull(false)
        // Long enough that no device is still reading a snapshot.
        case .forgetDeletions: world.cloud.purge(olderThan: .seconds(60))
        case .restartCloud: world.cloud.restart()
        case .fillAccount: world.cloud.fillAccount(but: Int64(random.below(1000)))
        case .freeAccount: world.cloud.setQuota(.max)
        case .forgetChunks: world.cloud.forgetUnusedChunks()
        case .crashCloud:
            world.cloud.crash(
                afterWrites: 1 + random.below(60), powerLoss: random.chance(0.6),
                downFor: random.duration(.milliseconds(100)...(.seconds(15))))
        default: break
        }
    }

    /// Starts a device that is down. A device that cannot start (its disk is full) stays down.
    private func startAgain(_ device: SimulatedDevice, _ world: Simulation) {
        guard !device.isRunning else { return }
        do { try device.start() } catch {
            world.world.trace.note("\(world.world.uptime) \(device.name) cannot start: \(error)")
        }
    }
}
