internal import UbiquityCore
internal import UbiquityIndex

/// Two devices make one change each without knowing of the other's, and then sync. The outcome must be that of the
/// table of conflicts.
struct Pairs {
    private static let cases = 5

    private let world: Simulation
    private let random: SeededRandom

    init(_ world: Simulation, seed: UInt64) {
        self.world = world
        random = SeededRandom(seed &+ 6)
    }

    func run() async throws {
        for number in 0..<Self.cases {
            let pair = random.pick(Pair.allCases)
            let devices = random.chance(0.5) ? [world.a, world.b] : [world.b, world.a]
            try await run(pair, in: "\(pair.isUnderDocuments ? "Documents/" : "")p\(number)", devices)
        }
        try await world.check()
    }

    /// - Parameter devices: the first one acts first.
    private func run(_ pair: Pair, in folder: String, _ devices: [SimulatedDevice]) async throws {
        var meeting = Meeting(pair, folder, devices, random)
        world.world.trace.note("\(world.world.uptime) \(pair.rawValue) in \(folder), \(devices.map(\.name))")
        try await meeting.prepare(devices[0])
        try await world.settle()
        if pair.needsContent { try await meeting.materialize(devices) }
        try await world.settle()
        let conflicts = world.cloud.conflictCount()
        for device in devices { device.link.setAway(true) }
        for number in 0..<2 {
            try await world.sleep(.seconds(2 + random.below(20)))
            try await meeting.act(number, at: world.world.uptime)
        }
        try await world.sleep(.seconds(5))
        if pair.goesOn {
            try await meeting.goOn()
            try await world.sleep(.seconds(5))
        }
        let order = random.chance(0.5) ? [0, 1] : [1, 0]
        for number in order {
            let link = devices[number].link, returned = world.world.uptime
            link.setAway(false)
            try await world.settle([devices[number]])
            meeting.arrived(number, at: link.firstCommitAt ?? returned)
        }
        try await world.settle()
        let outcomes = meeting.plausiblyLater
        do { try await compare(meeting, meeting.expectation(later: outcomes[0]), conflicts) } catch {
            guard outcomes.count > 1 else { throw error }
            try await compare(meeting, meeting.expectation(later: outcomes[1]), conflicts)
        }
    }

    private func compare(
        _ meeting: Meeting, _ expected: Meeting.Expectation, _ conflictsBefore: Int
    ) async throws {
        for device in world.devices {
            let seen = try await device.modelTree().filter { $0.key.hasPrefix(meeting.folder + "/") }
            guard seen == expected.nodes else {
                throw UbiquityError(
                    .damaged,
                    "\(meeting.pair.rawValue): \(device.name) sees \(Self.describe(seen)), which should be "
                        + "\(Self.describe(expected.nodes)); \(meeting.times)")
            }
        }
        let conflicts = world.cloud.conflictCount() - conflictsBefore
        guard conflicts == expected.losers.count + (expected.lostPackage == nil ? 0 : 1) else {
            throw UbiquityError(
                .damaged, "\(meeting.pair.rawValue): \(conflicts) conflict versions instead of \(expected.losers.count)")
        }
        if let lost = expected.lostPackage { return try await compare(meeting, lost) }
        let kept = try await world.cloud.conflictContents()
        guard expected.losers.allSatisfy({ kept.contains(SimulatedDevice.fingerprint($0)) }) else {
            throw UbiquityError(.damaged, "\(meeting.pair.rawValue): another content than the loser's is in conflict")
        }
        for (path, value) in expected.attributes {
            for device in world.devices
            where try device.live(path).xattrs != [Xattr(name: Array(Meeting.attribute.utf8), value: Array(value.utf8))] {
                throw UbiquityError(
                    .damaged, "\(meeting.pair.rawValue): the attribute of \(path) on \(device.name); \(meeting.times)")
            }
        }
        for path in expected.modes.keys {
            for device in world.devices where try device.live(path).mode != expected.modes[path] {
                throw UbiquityError(.damaged, "\(meeting.pair.rawValue): the mode of \(path) on \(device.name); \(meeting.times)")
            }
        }
    }

    private func compare(_ meeting: Meeting, _ lost: (path: String, members: [String: [UInt8]])) async throws {
        for device in world.devices {
            let row = try device.live(lost.path)
            let versions = try device.index.read { try $0.conflicts(of: row.id) }
            guard let version = versions.first, try await device.members(of: version) == lost.members else {
                throw UbiquityError(
                    .damaged, "\(meeting.pair.rawValue): \(device.name) has another state of \(lost.path) in conflict")
            }
        }
    }

    private static func describe(_ nodes: [String: ModelTree.Node]) -> String {
        nodes.sorted { $0.key < $1.key }.map { path, node in
            if case .file(let bytes, _) = node { "\(path) of \(bytes.count) bytes" } else { path }
        }.joined(separator: ", ")
    }
}

/// The rows of the table of conflicts, and other pairs of concurrent changes.
enum Pair: String, CaseIterable {
    case editEdit, editEditEqual, editDelete, deleteEdit, editRename, renameRename, renameDelete
    case deleteFolderCreateInside, deleteFolderEditInside, moveIntoEachOther
    case createCreate, createCreateEqual, createCreateUnderDocuments, folderFolder
    case modeMode, modeEdit, renameMove, deleteDelete
    case modeModeGoOn, attributeAttributeGoOn
    case packagePackage

    var isUnderDocuments: Bool { self == .createCreateUnderDocuments }

    /// Whether the first device makes one more change, after both have acted.
    var goesOn: Bool { self == .modeModeGoOn || self == .attributeAttributeGoOn }

    /// Whether both devices must have the content that they change.
    var needsContent: Bool {
        switch self {
        case .editEdit, .editEditEqual, .editDelete, .deleteEdit, .editRename, .deleteFolderEditInside, .modeEdit,
            .packagePackage:
            true
        default: false
        }
    }
}
