internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Packages of a world: one that each device saves alone, and one that all of them save. All members of one state have
/// the same size, which no other state has. So two sizes, or missing members, prove a mixture of two states.
final class PackageWatch: Sendable {
    static let members = ["one", "two", "three"]
    private static let suffix = ".rtfd"
    /// The package that all devices save.
    private static let shared = "all"

    private struct Known {
        /// A save was interrupted: the members are whatever its device had written.
        var isTorn = false
        /// The devices that save it now, with the life of each.
        var savers: [String: Int] = [:]
    }

    private let packages = Lock<[String: Known]>([:])
    private let states = Lock(0)

    static func path(_ package: String) -> String { package + suffix }
    static func package(of device: SimulatedDevice, isShared: Bool) -> String { isShared ? shared : device.name }

    /// Other operations do not touch packages.
    static func isWithin(_ path: String) -> Bool { path.contains(suffix) }

    /// - Returns: the size of the members in the coming state.
    func begin(_ package: String, _ device: SimulatedDevice) -> Int {
        packages.withLock { packages in
            var known = packages[package] ?? Known()
            known.isTorn = known.isTorn || known.savers[device.name] != nil
            known.savers[device.name] = device.disk.generation
            packages[package] = known
        }
        return states.withLock { state in
            state += 1
            return 100 + state
        }
    }

    /// Writes of a dying device do not count.
    func finish(_ package: String, _ device: SimulatedDevice) {
        let generation = device.disk.generation
        packages.withLock { packages in
            guard packages[package]?.savers[device.name] == generation else { return }
            packages[package]?.savers[device.name] = nil
        }
    }

    func tear(_ package: String) { packages.withLock { $0[package, default: Known()].isTorn = true } }

    /// The device's disk has lost unsynced changes, also of the packages that it saves.
    func tear(_ device: SimulatedDevice) {
        tear(device.name)
        tear(Self.shared)
    }

    private func tearUnfinished(_ devices: [SimulatedDevice]) {
        packages.withLock { packages in
            for device in devices {
                for (package, known) in packages {
                    guard let generation = known.savers[device.name], generation != device.disk.generation else { continue }
                    packages[package]?.isTorn = true
                }
            }
        }
    }

    private func sizes(of package: String, on device: SimulatedDevice) throws -> [Int64]? {
        do {
            guard let package = try device.row(Self.path(package)) else { return nil }
            return try device.children(of: package).map(\.size)
        } catch {
            // The device may have died during the check, which commits gathered writes.
            guard device.isRunning else { return nil }
            throw error
        }
    }

    /// Throws if some device shows a mixture.
    func check(_ devices: [SimulatedDevice]) throws {
        tearUnfinished(devices)
        let whole = packages.withLock { $0.filter { !$0.value.isTorn } }
        for device in devices where device.isRunning {
            for (package, known) in whole.sorted(by: { $0.key < $1.key }) where known.savers[device.name] == nil {
                guard let sizes = try sizes(of: package, on: device) else { continue }
                guard Set(sizes).count <= 1, sizes.count == Self.members.count else {
                    throw UbiquityError(
                        .damaged, "\(device.name) shows \(package)'s package with members of \(sizes) bytes")
                }
            }
        }
    }
}

extension Performer {
    /// Saves this device's package, or the shared one: every member anew, in place.
    func savePackage(_ watch: PackageWatch) async throws {
        let package = PackageWatch.package(of: device, isShared: random.below(2) == 0)
        let path = PackageWatch.path(package), size = watch.begin(package, device)
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
            watch.finish(package, device)
        } catch {
            watch.tear(package)
            throw error
        }
    }
}
