internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Packages of a world: each is saved by one device alone, and all members of one state have the same size, which no
/// other state has. So whoever sees two sizes, or some members only, sees a mixture of two states.
final class PackageWatch: Sendable {
    static let members = ["one", "two", "three"]
    private static let suffix = ".rtfd"

    private struct Known {
        var state = 0
        /// A save was cut off: what is there is what its device made of it.
        var isTorn = false
        var isBeingSaved = false
        /// The life of its device in which it was saved last.
        var generation = 0
    }

    private let packages = Lock<[String: Known]>([:])

    static func path(of device: SimulatedDevice) -> String { device.name + suffix }

    /// Others leave packages alone.
    static func isWithin(_ path: String) -> Bool { path.contains(suffix) }

    /// - Returns: the size of the members in the coming state.
    func begin(_ device: SimulatedDevice) -> Int {
        packages.withLock { packages in
            var known = packages[device.name] ?? Known()
            known.isTorn = known.isTorn || known.isBeingSaved
            known.isBeingSaved = true
            known.state += 1
            known.generation = device.disk.generation
            packages[device.name] = known
            return 100 + known.state
        }
    }

    /// What a device does in its death comes to nothing.
    func finish(_ device: SimulatedDevice) {
        let generation = device.disk.generation
        packages.withLock { packages in
            guard packages[device.name]?.generation == generation else { return }
            packages[device.name]?.isBeingSaved = false
        }
    }

    func tear(_ device: SimulatedDevice) { packages.withLock { $0[device.name]?.isTorn = true } }

    private func tearUnfinished(_ devices: [SimulatedDevice]) {
        packages.withLock { packages in
            for device in devices {
                guard let known = packages[device.name], known.isBeingSaved else { continue }
                if known.generation != device.disk.generation { packages[device.name]?.isTorn = true }
            }
        }
    }

    private func sizes(of owner: String, on device: SimulatedDevice) throws -> [Int64]? {
        do {
            guard let package = try device.row(owner + Self.suffix) else { return nil }
            return try device.children(of: package).map(\.size)
        } catch {
            // It may have died as it looked: that commits what was gathered.
            guard device.isRunning else { return nil }
            throw error
        }
    }

    /// Throws if some device shows a mixture.
    func check(_ devices: [SimulatedDevice]) throws {
        tearUnfinished(devices)
        let whole = packages.withLock { $0.filter { !$0.value.isTorn } }.keys.sorted()
        guard !whole.isEmpty else { return }
        for device in devices where device.isRunning {
            for owner in whole where owner != device.name {
                guard let sizes = try sizes(of: owner, on: device) else { continue }
                guard Set(sizes).count <= 1, sizes.count == Self.members.count else {
                    throw UbiquityError(
                        .damaged, "\(device.name) shows \(owner)'s package with members of \(sizes) bytes")
                }
            }
        }
    }
}

extension Performer {
    /// Saves this device's package: every member anew, in place.
    func savePackage(_ watch: PackageWatch) async throws {
        let path = PackageWatch.path(of: device), size = watch.begin(device)
        note("saves \(path), \(size) bytes each")
        do {
            if try device.row(path) == nil { try device.makeFolder(path) }
            for member in PackageWatch.members {
                let name = "\(path)/\(member)", bytes = random.bytes(size)
                if try device.row(name) == nil {
                    try await device.create(name, bytes)
                } else {
                    try await device.overwrite(name, bytes)
                }
            }
            watch.finish(device)
        } catch {
            watch.tear(device)
            throw error
        }
    }
}
