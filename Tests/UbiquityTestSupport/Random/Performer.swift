internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityVFS

/// Executes the operations of a program on a device.
struct Performer {
    /// Few names, so that devices often use the same ones.
    private static let names = ["a", "b", "c.txt", "d.txt", "Documents", "e"]
    /// Errors that a program gets in normal operation.
    private static let usual: Set<UbiquityError.Code> = [
        .notFound, .alreadyExists, .directoryNotEmpty, .invalid, .isDirectory, .notDirectory, .stale, .offline,
        .timedOut, .notUploadedYet, .busy, .notPermitted, .noSuchAttribute, .damaged, .crossesContainers, .cancelled,
        .noSpace, .quotaExceeded,
    ]

    let device: SimulatedDevice
    let random: SeededRandom
    private let packages: PackageWatch
    private var world: VirtualWorld { device.world }

    init(_ device: SimulatedDevice, seed: UInt64, _ packages: PackageWatch) {
        self.device = device
        self.packages = packages
        random = SeededRandom(seed)
    }

    func perform(_ action: Action) async throws {
        do { try await attempt(action) } catch is CancellationError { note("gives up") } catch let error as Errno {
            guard error != .EIO else { throw error }
            note("gets: \(error)")
        } catch let error as UbiquityError {
            // A full disk may cause an error of SQLite.
            guard Self.usual.contains(error.code) || !device.isRunning else { throw error }
            // The folder has a random name, and the trace of a seed is always the same.
            note("gets: \("\(error)".replacing(device.disk.folder, with: ""))")
        }
    }

    func note(_ text: String) { world.trace.note("\(world.uptime) user of \(device.name) \(text)") }

    private func attempt(_ action: Action) async throws {
        switch action {
        case .createFile: try await createFile()
        case .makeFolder: try makeFolder()
        case .makeLink: try makeLink()
        case .makeHardLink: try makeHardLink()
        case .edit, .patch, .rewrite, .saveOver, .overwrite, .editAndDie: try await change(action)
        case .rename, .exchange, .remove: try move(action)
        case .setMode, .setXattr, .touch: try setAttribute(action)
        case .read, .evict, .pin: try await use(action)
        case .decide: try await decide()
        case .restoreEarlier: try await restoreEarlier()
        case .undelete: try await undelete()
        case .backupSave, .hiddenSave: try await save(action)
        case .savePackage: try await savePackage(packages)
        case .workInPackages: try await workInPackages()
        case .ignore: try await ignore()
        case .evictHard: try await evictHard()
        case .syncFolder:
            note("syncs a folder")
            try device.syncFolder()
        default: break
        }
    }

    // MARK: Choices

    func anyPath(_ matches: (ItemRow) -> Bool = { _ in true }) throws -> String? {
        let paths = try device.paths().filter { matches($0.row) && !PackageWatch.isWithin($0.path) }
        return paths.isEmpty ? nil : random.pick(paths).path
    }

    private func anyFile() throws -> String? { try anyPath { $0.kind == .file || $0.kind == .hardLink } }

    private func newPath() throws -> String {
        let name = random.pick(Self.names)
        guard random.chance(0.6), let folder = try anyPath({ $0.kind == .directory }) else { return name }
        guard folder.utf8.count(where: { $0 == UInt8(ascii: "/") }) < 4 else { return name }
        return folder + "/" + name
    }

    func newBytes() -> [UInt8] {
        switch random.below(20) {
        case 0: []
        case 1...15: random.bytes(1 + random.below(300))
        // Few different contents, so that devices sometimes write the same one.
        case 16, 17: [UInt8](repeating: UInt8(random.below(2)), count: 100)
        default: random.bytes(60_000 + random.below(200_000))
        }
    }

    private var isSynced: Bool { random.chance(0.4) }

    // MARK: Operations

    private func createFile() async throws {
        let path = try newPath(), bytes = newBytes(), synced = isSynced
        note("creates \(path), \(bytes.count) bytes\(synced ? ", synced" : "")")
        try await device.create(path, bytes, synced: synced)
    }

    private func makeFolder() throws {
        let path = try newPath()
        note("makes folder \(path)")
        try device.makeFolder(path)
    }

    private func makeLink() throws {
        let path = try newPath(), text = random.pick(Self.names)
        note("makes link \(path) to \(text)")
        try device.makeLink(path, to: text)
    }

    private func makeHardLink() throws {
        guard let old = try anyFile() else { return }
        let path = try newPath()
        note("gives \(old) the further name \(path)")
        try device.makeHardLink(path, to: old)
    }

    private func change(_ action: Action) async throws {
        guard let path = try anyFile() else { return }
        let bytes = newBytes(), synced = isSynced
        note("\(action.rawValue) \(path), \(bytes.count) bytes\(synced ? ", synced" : "")")
        switch action {
        case .edit: try await device.edit(path, synced: synced) { $0.count > 500_000 ? bytes : bytes + $0 }
        case .patch: try await device.patch(path, at: random.pick([0, 0.5, 1]), bytes, synced: synced)
        case .rewrite: try await device.rewrite(path)
        case .saveOver: try await device.saveOver(path, bytes, synced: synced)
        case .overwrite: try await device.overwrite(path, bytes, synced: synced)
        default:
            packages.tear(device)
            try await device.editAndCrash(
                path, bytes, syncs: synced ? 1 + bytes.count % 3 : 0, powerLoss: random.chance(0.3))
        }
    }

    private func move(_ action: Action) throws {
        guard let old = try anyPath() else { return }
        switch action {
        case .rename:
            let new = try random.chance(0.3) ? anyPath() ?? newPath() : newPath()
            note("renames \(old) to \(new)")
            try device.rename(old, new, random.chance(0.5) ? .replacing : .exclusive)
        case .exchange:
            guard let other = try anyPath() else { return }
            note("exchanges \(old) and \(other)")
            try device.rename(old, other, .exchanging)
        default:
            note("removes \(old)")
            try device.remove(old)
        }
    }

    private func setAttribute(_ action: Action) throws {
        guard let path = try anyPath() else { return }
        switch action {
        case .setMode:
            note("changes the mode of \(path)")
            try device.setMode(path, random.pick([0o600, 0o640, 0o644, 0o755, 0o700]))
        case .touch:
            note("touches \(path)")
            let time = device.timekeeper.now().advanced(bySeconds: -Double(random.below(100_000)))
            try device.setModified(path, time)
        default:
            let name = "user." + random.pick(["one", "two", "three"])
            note("sets or removes \(name) of \(path)")
            if random.chance(0.3) { try device.removeXattr(path, name) } else {
                // Few values, so that they recur.
                try device.setXattr(path, name, String(random.below(2)))
            }
        }
    }

    private func use(_ action: Action) async throws {
        guard let path = try anyFile() else { return }
        note("\(action.rawValue) \(path)")
        switch action {
        case .read: _ = try await device.read(path)
        case .evict: try device.evict(path)
        default: try device.pin(path, random.chance(0.5))
        }
    }
}

extension SimulatedDevice {
    /// Runs a program's operation on the device: it is frozen with the device, and given up after `limit`.
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
        // A process after its death writes nothing to the trace.
        guard !executor.isFrozen else { return }
        try outcome.withLock { try $0?.get() }
    }
}
