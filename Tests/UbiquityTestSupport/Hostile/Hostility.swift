internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

/// Devices work while their cloud lies to them (`HostileCloud`). Then the cloud is honest again, as another incarnation
/// or with nothing in it.
///
/// Meanwhile every index stays consistent. A saved content that the cloud has not acknowledged stays on its device. A
/// device can be stopped. In the end all devices and the cloud have the same tree.
///
/// A placeholder that only the lying cloud knew is left out of the comparison. A device keeps it when the cloud becomes
/// another one, because a restored cloud may be followed by its newer data. It must not stop anything else.
struct Hostility {
    private static let operations = 60
    /// Limit for a shutdown in virtual time.
    private static let stopLimit = Duration.seconds(20)
    /// Calls of one device per second of virtual time, on average, while programs work.
    private static let callsPerSecond = 100.0
    private static let names = ["a", "b", "c.txt", "d", "Documents"]
    private static let others: [Action] = [
        .makeFolder, .makeFolder, .makeLink, .makeHardLink, .makeHardLink, .rename, .rename, .exchange, .remove,
        .setMode, .setXattr, .touch, .read, .evict, .syncFolder, .decide, .restoreEarlier, .undelete,
    ]

    private let world: Simulation
    private let cloud: HostileCloud
    private let random: SeededRandom

    init(_ world: Simulation, seed: UInt64) throws {
        guard let cloud = world.hostileCloud else { throw UbiquityError(.invalid, "this world has no hostile cloud") }
        self.world = world
        self.cloud = cloud
        random = SeededRandom(seed &+ 11)
    }

    func run() async throws {
        for _ in 0..<10 { try await work() }
        try await world.settle()
        world.world.trace.note("\(world.world.uptime) the cloud becomes hostile")
        cloud.setHostile(true)
        let start = world.world.uptime
        for _ in 0..<Self.operations {
            try await world.sleep(random.duration(.milliseconds(1)...(.seconds(3))))
            try await work()
            if random.chance(0.3) { try examine() }
            if random.chance(0.05) { try await restart(random.pick(world.devices)) }
        }
        try examine()
        let seconds = (world.world.uptime - start) / .seconds(1)
        let limit = Int(seconds * Self.callsPerSecond) * world.devices.count
        guard cloud.calls <= limit else {
            throw UbiquityError(.damaged, "the devices called the hostile cloud \(cloud.calls) times in \(seconds) s")
        }
        for device in world.devices { try await restart(device) }
        try examine()
        try await turnHonest()
    }

    // MARK: Programs

    private func work() async throws {
        let device = random.pick(world.devices), seed = random.next(), isSaving = random.chance(0.5)
        do {
            // A program that waits for the cloud is given up.
            try await device.attempt(within: .seconds(20)) {
                if isSaving { try await save(device, SeededRandom(seed)) } else {
                    try await Performer(device, seed: seed, PackageWatch()).perform(SeededRandom(seed).pick(Self.others))
                }
            }
        } catch is CancellationError {} catch is UbiquityError {} catch is Errno {}
    }

    /// Contents are small: each is one chunk.
    private func save(_ device: SimulatedDevice, _ random: SeededRandom) async throws {
        let files = try device.paths().filter { $0.row.kind == .file && $0.row.contentState == .complete }
        let bytes = random.bytes(1 + random.below(60))
        if files.isEmpty || random.chance(0.5) {
            let folders = try device.paths().filter { $0.row.kind == .directory }.map { $0.path + "/" }
            let path = random.pick([""] + folders) + random.pick(Self.names)
            guard try device.row(path) == nil else { return }
            world.world.trace.note("\(world.world.uptime) user of \(device.name) creates \(path)")
            return try await device.create(path, bytes)
        }
        let path = random.pick(files).path, isEdit = random.chance(0.5)
        world.world.trace.note("\(world.world.uptime) user of \(device.name) \(isEdit ? "edits" : "replaces") \(path)")
        if isEdit { try await device.edit(path) { _ in bytes } } else { try await device.saveOver(path, bytes) }
    }

    private func restart(_ device: SimulatedDevice) async throws {
        try await device.stop(within: Self.stopLimit)
        try device.start()
    }

    // MARK: What must hold

    private func examine() throws {
        for device in world.devices {
            try device.index.check()
            let lost = try device.required().subtracting(device.contents()).filter { !device.isAcknowledged($0) }
            guard lost.isEmpty else {
                throw UbiquityError(.damaged, "\(device.name) has lost contents that no cloud has: \(lost.sorted())")
            }
        }
        guard !world.world.trace.text.contains(Settler.circle) else {
            throw UbiquityError(.damaged, "the settler went round in a circle")
        }
    }

    // MARK: The end

    private func turnHonest() async throws {
        cloud.setHostile(false)
        let isEmpty = random.chance(0.5)
        world.world.trace.note("\(world.world.uptime) the cloud is \(isEmpty ? "a new one" : "honest again")")
        if isEmpty { world.cloud.startAnew() } else { world.cloud.renew() }
        try await world.heal()
        // Every device meets the honest cloud, whatever it waits for.
        try await world.sleep(.seconds(120))
        try await world.settle()
        let truth = try await world.cloud.picture()
        for device in world.devices {
            let differences = try await device.pictureWithoutPhantoms().differences(from: truth)
            guard differences.isEmpty else {
                throw UbiquityError(
                    .damaged, "\(device.name) differs from the cloud:\n" + differences.joined(separator: "\n"))
            }
            try device.index.check()
            let kept = try await world.cloud.contents()
            let lost = try device.required().subtracting(kept).filter { !device.isAcknowledged($0) }
            guard lost.isEmpty else {
                throw UbiquityError(.damaged, "contents closed on \(device.name) are lost: \(lost.sorted())")
            }
        }
    }
}

extension SimulatedDevice {
    /// The fingerprints of all complete contents on the device.
    fileprivate func contents() throws -> Set<ChunkID> {
        let rows = try index.read { try $0.allRows() }.filter { $0.kind == .file && $0.contentState == .complete }
        return Set(
            try rows.compactMap(\.content).map { content in
                let file = try store.open(content, writable: false)
                return Self.fingerprint(try file.read(count: Int(file.status().size), at: 0))
            })
    }

    /// Whether any cloud has acknowledged the content. For a content of one chunk.
    fileprivate func isAcknowledged(_ fingerprint: ChunkID) -> Bool {
        link.acknowledged[ChunkNaming.name(of: fingerprint.bytes)] != nil
    }

    /// The tree without placeholders that only a lying cloud knew.
    fileprivate func pictureWithoutPhantoms() async throws -> TreePicture {
        var picture = try await picture(reading: false)
        for (path, row) in try paths() where row.kind == .file {
            if row.isPlaceholder, try index.read({ try $0.remote(id: row.id) }) == nil {
                picture.nodes[path] = nil
            } else if picture.nodes[path] != nil {
                picture.nodes[path]?.content = Self.fingerprint(try await read(path))
            }
        }
        return picture
    }
}
