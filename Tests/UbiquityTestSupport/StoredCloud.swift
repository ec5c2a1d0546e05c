internal import Logging
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// The real cloud over a simulated disk: its machine dies, or loses power, at any write, and starts again.
///
/// A call while it is down, or during its death, gets no answer. Every answered change must be there after the restart.
final class StoredCloud: Sendable {
    private struct State {
        var service: (any CloudService)?
        /// Counts the starts: answers of an earlier life are dropped.
        var life = 0
        var isStarting = false
        /// The newest announced revision, and the cloud that announced it.
        var acknowledged = Revision.zero
        var incarnation: UInt64?
        var failure: UbiquityError?
    }

    let disk: SimulatedDisk
    private let world: VirtualWorld
    private let container: ContainerID
    private let executor: VirtualExecutor
    private let state = Lock(State())
    /// Called at its death, to end the streams of news.
    private let whenItDies: @Sendable () -> Void

    init(_ disk: SimulatedDisk, world: VirtualWorld, container: ContainerID, whenItDies: @escaping @Sendable () -> Void) {
        self.disk = disk
        self.world = world
        self.container = container
        self.whenItDies = whenItDies
        executor = VirtualExecutor(world: world, name: "cloud")
    }

    // MARK: Calls

    func reaching<T: Sendable>(_ call: (any CloudService) async throws -> T) async throws -> T {
        let (found, life) = state.withLock { ($0.service, $0.life) }
        guard let found else { throw UbiquityError(.offline, "the cloud is down") }
        let result: Result<T, any Error>
        do { result = .success(try await call(found)) } catch { result = .failure(error) }
        guard state.withLock({ $0.service != nil && $0.life == life }) else {
            throw UbiquityError(.offline, "the cloud went away")
        }
        return try result.get()
    }

    func commit(_ request: CommitRequest) async throws -> CommitResponse {
        let response = try await reaching { try await $0.commit(request) }
        state.withLock { $0.acknowledged = max($0.acknowledged, response.revision) }
        return response
    }

    // MARK: Life

    var isUp: Bool { state.withLock { $0.service != nil } }

    /// Starts it, if it is down. It may die during the start.
    func start() async throws {
        let isMine = state.withLock { state in
            guard state.service == nil, !state.isStarting else { return false }
            state.isStarting = true
            return true
        }
        guard isMine else { return }
        defer { state.withLock { $0.isStarting = false } }
        let generation = disk.generation
        do {
            let cloud = try Cloud(
                data: "\(disk.folder)/data", timekeeper: VirtualTimekeeper(world), random: world.random,
                pool: BlockingPool(pausing: { [world] in await world.pause() }),
                logger: Logger(label: "cloud", factory: { [world] _ in TraceLogHandler(world: world, device: "cloud") }),
                // After each crash the disk is another folder.
                noticesCopies: false)
            let service = try await cloud.service(account: "local", container: container)
            let description = try await service.open()
            guard disk.generation == generation else { return }
            try compare(description)
            state.withLock { state in
                state.service = service
                state.life += 1
            }
            world.trace.note("\(world.uptime) cloud starts")
        } catch {
            guard disk.generation == generation else { return }
            let failure = error as? UbiquityError ?? UbiquityError(.io, "the cloud does not start: \(error)")
            state.withLock { $0.failure = $0.failure ?? failure }
            throw error
        }
    }

    /// Checks that it has every announced revision.
    private func compare(_ found: ContainerDescription) throws {
        let (acknowledged, incarnation) = state.withLock { state in
            let before = state.incarnation
            if before == nil { state.incarnation = found.incarnation }
            return (state.acknowledged, before ?? found.incarnation)
        }
        guard found.revision >= acknowledged, found.incarnation == incarnation else {
            throw UbiquityError(
                .damaged, "the cloud came back at revision \(found.revision) after it had told of \(acknowledged)")
        }
    }

    /// Dies at the n-th write from now, and restarts after a while.
    func crash(afterWrites writes: Int, powerLoss: Bool, downFor time: Duration) {
        disk.crash(powerLoss ? .powerLoss : .kill, afterWrites: writes) { [weak self] in
            self?.noteCrash(powerLoss: powerLoss, downFor: time)
        }
    }

    private func noteCrash(powerLoss: Bool, downFor time: Duration) {
        state.withLock { state in
            state.service = nil
            state.life += 1
        }
        world.trace.note("\(world.uptime) cloud \(powerLoss ? "loses power" : "crashes")")
        whenItDies()
        Task(executorPreference: executor) { [world] in
            try await world.sleep(for: time)
            while !self.isUp {
                // A failure is kept: the world's check reports it.
                try? await self.start()
                try await world.sleep(for: .seconds(1))
            }
        }
    }

    /// Starts it if it is down, and cancels all planned faults.
    func heal() async throws {
        disk.heal()
        while !isUp {
            try await start()
            try await world.sleep(for: .milliseconds(10))
        }
    }

    func requireSound() throws { if let failure = state.withLock({ $0.failure }) { throw failure } }

    // MARK: Inspection

    /// Every content that it keeps, of live and of deleted items.
    func manifests() async throws -> Set<Manifest> {
        var items = [RemoteItem](), position = Revision.zero, hasMore = true
        while hasMore {
            let page = try await reaching { [position] in try await $0.snapshot(after: position, limit: 1000) }
            items += page.items
            position = page.revision
            hasMore = page.hasMore
        }
        var folders: [ItemID?] = [nil]
        while let folder = folders.popLast() {
            var after: TrashPosition?
            hasMore = true
            while hasMore {
                let page = try await reaching { [after] in try await $0.trash(in: folder, after: after, limit: 100) }
                items += page.items.map(\.item)
                folders += page.items.filter { $0.item.kind == .directory }.map(\.item.id)
                after = page.items.last?.position
                hasMore = page.hasMore && after != nil
            }
        }
        var result = Set<Manifest>()
        for item in items where item.kind == .file || item.kind == .directory {
            for version in try await reaching({ try await $0.versions(of: item.id) }) where version.content.isAvailable {
                result.insert(try await reaching { try await $0.manifest(of: version.id) })
            }
        }
        return result
    }
}
