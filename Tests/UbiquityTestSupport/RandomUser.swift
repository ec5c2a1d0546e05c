internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Somebody who does one thing after another with a device, drawn from the seed.
package struct RandomUser: Sendable {
    /// Few names, so that devices often mean the same ones.
    private static let names = ["a", "b", "c.txt", "d.txt", "Documents", "e"]
    /// What a user is told in the ordinary course of things.
    private static let usual: Set<UbiquityError.Code> = [
        .notFound, .alreadyExists, .directoryNotEmpty, .invalid, .isDirectory, .notDirectory, .stale, .offline,
        .timedOut,
        .notUploadedYet, .busy, .notPermitted, .noSuchAttribute, .damaged, .crossesContainers, .cancelled,
    ]

    let device: SimulatedDevice
    private let world: VirtualWorld
    var random: SeededRandom { world.random }

    package init(_ device: SimulatedDevice) {
        self.device = device
        world = device.world
    }

    /// - Parameter actions: how many things to do.
    package func act(_ actions: Int, pause: ClosedRange<Duration>) async throws {
        for _ in 0..<actions {
            try await world.sleep(for: random.duration(pause))
            guard device.isRunning else { continue }
            try await device.attempt(within: .seconds(60)) { try await one() }
        }
    }

    private func one() async throws {
        do {
            try await change()
        } catch let error as UbiquityError where Self.usual.contains(error.code) {
            note("is told: \(error)")
        } catch is CancellationError {
            note("gives up")
        }
    }

    func note(_ text: String) { world.trace.note("\(world.uptime) user of \(device.name) \(text)") }

    // MARK: Choices

    private func change() async throws {
        switch random.below(100) {
        case 0..<15: try await create()
        case 15..<18: try await decide()
        case 18..<26: try makeFolder()
        case 26..<38: try await edit()
        case 38..<44: try await saveOver()
        case 44..<56: try rename()
        case 56..<66: try remove()
        case 66..<70: try setMode()
        case 70..<75: try setXattr()
        case 75..<79: try setModified()
        case 79..<82: try makeLink()
        case 82..<88: try await read()
        case 88..<93: try evict()
        case 93..<95: try pin()
        case 95..<98: try await overwrite()
        default: try exchange()
        }
    }

    private func anyPath(_ matches: (ItemRow) -> Bool = { _ in true }) throws -> String? {
        let paths = try device.paths().filter { matches($0.row) }
        return paths.isEmpty ? nil : random.pick(paths).path
    }

    private func newPath() throws -> String {
        let name = random.pick(Self.names)
        guard random.chance(0.6), let folder = try anyPath({ $0.kind == .directory }) else { return name }
        guard folder.utf8.count(where: { $0 == UInt8(ascii: "/") }) < 4 else { return name }
        return folder + "/" + name
    }

    private func newBytes() -> [UInt8] {
        switch random.below(20) {
        case 0: []
        case 1...15: random.bytes(1 + random.below(300))
        // Few different contents, so that devices sometimes mean the same one.
        case 16, 17: [UInt8](repeating: UInt8(random.below(2)), count: 100)
        default: random.bytes(60_000 + random.below(200_000))
        }
    }

    private func create() async throws {
        let path = try newPath()
        note("creates \(path)")
        try await device.create(path, newBytes())
    }

    private func makeFolder() throws {
        let path = try newPath()
        note("makes folder \(path)")
        try device.makeFolder(path)
    }

    private func makeLink() throws {
        let path = try newPath()
        note("makes link \(path)")
        try device.makeLink(path, to: random.pick(Self.names))
    }

    private func edit() async throws {
        guard let path = try anyPath({ $0.kind == .file }) else { return }
        if random.chance(0.1) {
            note("writes \(path) and the machine dies")
            return try await device.editAndCrash(path, newBytes())
        }
        if random.chance(0.15) {
            note("rewrites \(path)")
            return try await device.rewrite(path)
        }
        note("edits \(path)")
        let more = newBytes()
        try await device.edit(path) { $0.count > 500_000 ? more : more + $0 }
    }

    private func saveOver() async throws {
        guard let path = try anyPath({ $0.kind == .file }) else { return }
        note("saves over \(path)")
        try await device.saveOver(path, newBytes())
    }

    private func overwrite() async throws {
        guard let path = try anyPath({ $0.kind == .file }) else { return }
        note("overwrites \(path)")
        try await device.overwrite(path, newBytes())
    }

    private func rename() throws {
        guard let old = try anyPath() else { return }
        let new = try random.chance(0.3) ? anyPath() ?? newPath() : newPath()
        note("renames \(old) to \(new)")
        try device.rename(old, new, random.chance(0.5) ? .replacing : .exclusive)
    }

    private func exchange() throws {
        guard let one = try anyPath(), let other = try anyPath() else { return }
        note("exchanges \(one) and \(other)")
        try device.rename(one, other, .exchanging)
    }

    private func remove() throws {
        guard let path = try anyPath() else { return }
        note("removes \(path)")
        try device.remove(path)
    }

    private func setMode() throws {
        guard let path = try anyPath() else { return }
        note("changes the mode of \(path)")
        try device.setMode(path, random.pick([0o600, 0o640, 0o644, 0o755, 0o400]))
    }

    private func setModified() throws {
        guard let path = try anyPath() else { return }
        note("touches \(path)")
        let time = device.timekeeper.now().advanced(bySeconds: -Double(random.below(100_000)))
        try device.setModified(path, time)
    }

    private func setXattr() throws {
        guard let path = try anyPath() else { return }
        let name = "user." + random.pick(["one", "two", "three"])
        note("sets or removes \(name) of \(path)")
        if random.chance(0.3) { try device.removeXattr(path, name) } else {
            try device.setXattr(path, name, String(random.below(100)))
        }
    }

    private func read() async throws {
        guard let path = try anyPath({ $0.kind == .file }) else { return }
        note("reads \(path)")
        _ = try await device.read(path)
    }

    private func evict() throws {
        guard let path = try anyPath({ $0.kind == .file }) else { return }
        note("evicts \(path)")
        try device.evict(path)
    }

    private func pin() throws {
        guard let path = try anyPath({ $0.kind == .file }) else { return }
        note("pins or unpins \(path)")
        try device.pin(path, random.chance(0.5))
    }
}

extension SimulatedDevice {
    /// Runs what a program does with the device: it is frozen with it, and given up after `limit`.
    package func attempt(within limit: Duration, _ body: @escaping @Sendable () async throws -> Void) async throws {
        let outcome = Lock<Result<Void, any Error>?>(nil)
        guard let executor else { return }
        let task = Task(executorPreference: executor) {
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            outcome.withLock { $0 = result }
        }
        let end = world.uptime + limit
        var interval = Duration.milliseconds(1)
        while outcome.withLock({ $0 == nil }), world.uptime < end, !executor.isFrozen {
            try await world.sleep(for: interval)
            interval = min(interval * 2, .milliseconds(500))
        }
        task.cancel()
        try outcome.withLock { try $0?.get() }
    }
}
