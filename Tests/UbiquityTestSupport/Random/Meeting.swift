internal import UbiquityCore

/// One pair of changes, with the outcome that the table of conflicts promises.
struct Meeting {
    struct Expectation {
        var nodes: [String: ModelTree.Node] = [:]
        /// Contents that become conflict versions.
        var losers: [[UInt8]] = []
        var modes: [String: UInt32] = [:]
        /// Of `attribute`.
        var attributes: [String: String] = [:]
        /// The state of a package that is its one conflict version.
        var lostPackage: (path: String, members: [String: [UInt8]])?
    }

    static let attribute = "user.met"

    let pair: Pair
    let folder: String
    private let devices: [SimulatedDevice]
    private let old: [UInt8]
    private let bytes: [[UInt8]]
    private var actedAt: [Duration] = [.zero, .zero]
    private var arrivedAt: [Duration] = [.zero, .zero]

    init(_ pair: Pair, _ folder: String, _ devices: [SimulatedDevice], _ random: SeededRandom) {
        self.pair = pair
        self.folder = folder
        self.devices = devices
        old = random.bytes(10)
        let first = random.bytes(20)
        bytes = [first, pair == .editEditEqual || pair == .createCreateEqual ? first : random.bytes(30)]
    }

    private func path(_ name: String) -> String { "\(folder)/\(name)" }

    func prepare(_ device: SimulatedDevice) async throws {
        if pair.isUnderDocuments, try device.row("Documents") == nil { try device.makeFolder("Documents") }
        try device.makeFolder(folder)
        try await device.create(path("f"), old)
        for name in ["G", "H"] { try device.makeFolder(path(name)) }
        try await device.create(path("G/x"), old)
        guard pair == .packagePackage else { return }
        try device.makeFolder(path("P.rtfd"))
        for name in Self.members { try await device.create(path("P.rtfd/\(name)"), old) }
    }

    private static let members = ["x", "y"]

    /// The members of the package on each device: each has changed one member and made another.
    private func members(_ number: Int) -> [String: [UInt8]] {
        var result = Dictionary(uniqueKeysWithValues: Self.members.map { ($0, old) })
        result[Self.members[number]] = bytes[number]
        result["n\(number)"] = bytes[number]
        return result
    }

    func materialize(_ devices: [SimulatedDevice]) async throws {
        for device in devices {
            try await device.materialize(path("f"))
            try await device.materialize(path("G/x"))
            guard pair == .packagePackage else { continue }
            for name in Self.members { try await device.materialize(path("P.rtfd/\(name)")) }
        }
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String { bytes.map { String($0, radix: 16) }.joined() }

    mutating func act(_ number: Int, at time: Duration) async throws {
        actedAt[number] = time
        let device = devices[number], isFirst = number == 0, bytes = bytes[number]
        switch pair {
        case .editEdit, .editEditEqual: try await device.edit(path("f")) { _ in bytes }
        case .editDelete: try await isFirst ? device.edit(path("f")) { _ in bytes } : device.remove(path("f"))
        case .deleteEdit: try await isFirst ? device.remove(path("f")) : device.edit(path("f")) { _ in bytes }
        case .editRename:
            try await isFirst ? device.edit(path("f")) { _ in bytes } : device.rename(path("f"), path("g"))
        case .renameRename: try device.rename(path("f"), path(isFirst ? "g" : "h"))
        case .renameDelete: try isFirst ? device.rename(path("f"), path("g")) : device.remove(path("f"))
        case .deleteFolderCreateInside:
            try await isFirst ? device.remove(path("G")) : device.create(path("G/n"), bytes)
        case .deleteFolderEditInside:
            try await isFirst ? device.remove(path("G")) : device.edit(path("G/x")) { _ in bytes }
        case .moveIntoEachOther:
            try isFirst ? device.rename(path("G"), path("H/G")) : device.rename(path("H"), path("G/H"))
        case .createCreate, .createCreateEqual, .createCreateUnderDocuments:
            try await device.create(path("n.txt"), bytes)
        case .folderFolder:
            try device.makeFolder(path("N"))
            try await device.create(path("N/\(number)"), bytes)
        case .modeMode, .modeModeGoOn: try device.setMode(path("f"), isFirst ? 0o600 : 0o640)
        case .attributeAttributeGoOn:
            try device.setXattr(path("f"), Self.attribute, Self.hexadecimal(bytes))
        case .modeEdit: try await isFirst ? device.setMode(path("f"), 0o600) : device.edit(path("f")) { _ in bytes }
        case .renameMove: try device.rename(path("f"), path(isFirst ? "G/f" : "H/f"))
        case .deleteDelete: try device.remove(path("f"))
        case .packagePackage:
            try await device.edit(path("P.rtfd/\(Self.members[number])")) { _ in bytes }
            try await device.create(path("P.rtfd/n\(number)"), bytes)
        }
    }

    /// The first device changes another attribute of the item, later than both changes. Its first change does not
    /// become later by that.
    func goOn() async throws {
        switch pair {
        case .modeModeGoOn: try devices[0].rename(path("f"), path("g"))
        case .attributeAttributeGoOn: try devices[0].setMode(path("f"), 0o600)
        default: break
        }
    }

    mutating func arrived(_ number: Int, at time: Duration) { arrivedAt[number] = time }

    // MARK: The table

    private var first: Int { arrivedAt[0] < arrivedAt[1] ? 0 : 1 }

    /// For a failure's report.
    var times: String {
        (0..<2).map { "\(devices[$0].name) \(devices[$0].skew) ahead acted \(actedAt[$0]), met \(arrivedAt[$0])" }
            .joined(separator: "; ")
    }

    /// Seconds by which a clock may be off before the cloud corrects it.
    private static let tolerance = Duration.seconds(120)

    /// Time between an action and its time stamp, and between a commit's departure and its acceptance. Of changes this
    /// close either may win (equal ones by their ids), as long as all devices agree.
    private static let margin = Duration.seconds(5)

    /// The devices whose change may count as the later one, the likelier first. A wrong clock is corrected. A clock
    /// that is a little off is accepted, but not as ahead of the cloud's clock.
    var plausiblyLater: [Int] {
        func time(_ number: Int) -> Duration {
            let skew = devices[number].skew
            let isCorrected = skew > Self.tolerance || skew <= .zero - Self.tolerance
            return isCorrected ? actedAt[number] : min(actedAt[number] + skew, arrivedAt[number])
        }
        let (zero, one) = (time(0), time(1))
        let later = zero > one ? 0 : 1
        return zero - one < Self.margin && one - zero < Self.margin ? [later, 1 - later] : [later]
    }

    func expectation(later: Int) -> Expectation {
        var nodes: [String: ModelTree.Node] = [
            path("f"): .file(old), path("G"): .folder, path("H"): .folder, path("G/x"): .file(old),
        ]
        var result = Expectation()
        func move(_ old: String, _ new: String) {
            for (at, node) in nodes where at == path(old) || at.hasPrefix(path(old) + "/") {
                nodes[at] = nil
                nodes[path(new) + at.dropFirst(path(old).count)] = node
            }
        }
        func conflict(_ name: String) {
            nodes[path(name)] = .file(bytes[later])
            result.losers = [bytes[1 - later]]
        }
        switch pair {
        case .editEdit: conflict("f")
        case .editEditEqual, .editDelete: nodes[path("f")] = .file(bytes[0])
        case .deleteEdit: nodes[path("f")] = .file(bytes[1])
        case .editRename:
            nodes[path("f")] = .file(bytes[0])
            move("f", "g")
        case .renameRename: move("f", later == 0 ? "g" : "h")
        case .renameDelete, .deleteDelete: nodes[path("f")] = nil
        case .deleteFolderCreateInside:
            nodes[path("G/x")] = nil
            nodes[path("G/n")] = .file(bytes[1])
        case .deleteFolderEditInside: nodes[path("G/x")] = .file(bytes[1])
        case .moveIntoEachOther: first == 0 ? move("G", "H/G") : move("H", "G/H")
        case .createCreate: conflict("n.txt")
        case .createCreateEqual: nodes[path("n.txt")] = .file(bytes[0])
        case .createCreateUnderDocuments:
            nodes[path("n.txt")] = .file(bytes[first])
            nodes[path("n 2.txt")] = .file(bytes[1 - first])
        case .folderFolder:
            nodes[path("N")] = .folder
            for number in 0..<2 { nodes[path("N/\(number)")] = .file(bytes[number]) }
        case .modeMode: result.modes[path("f")] = later == 0 ? 0o600 : 0o640
        case .modeModeGoOn:
            move("f", "g")
            result.modes[path("g")] = later == 0 ? 0o600 : 0o640
        case .attributeAttributeGoOn:
            result.modes[path("f")] = 0o600
            result.attributes[path("f")] = Self.hexadecimal(bytes[later])
        case .modeEdit:
            nodes[path("f")] = .file(bytes[1])
            result.modes[path("f")] = 0o600
        case .renameMove: move("f", later == 0 ? "G/f" : "H/f")
        case .packagePackage:
            nodes[path("P.rtfd")] = .folder
            for (name, bytes) in members(later) { nodes[path("P.rtfd/\(name)")] = .file(bytes) }
            result.lostPackage = (path("P.rtfd"), members(1 - later))
        }
        result.nodes = nodes
        return result
    }
}
