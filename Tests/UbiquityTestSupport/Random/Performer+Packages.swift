internal import UbiquityCore
internal import UbiquityIndex

// Packages that all devices change in parts, and between which they move entries. The outcome of two states is not
// predicted here: in the end all devices show the same, and nothing is lost.
extension Performer {
    private static let suffix = ".pages"
    private static let packages = ["p", "q", "r"].map { $0 + suffix }
    private static let folders = ["", "/c", "/c/g"]
    private static let names = ["one", "two", "three"]

    func workInPackages() async throws {
        try makeWhatIsMissing()
        switch random.below(10) {
        case 0...2: try await change()
        case 3...6: try moveBetween()
        case 7: try moveOutOrIn()
        case 8: try removeMember()
        default: try renamePackage()
        }
    }

    private func makeWhatIsMissing() throws {
        let package = random.pick(Self.packages)
        for folder in Self.folders where try device.row(package + folder) == nil { try device.makeFolder(package + folder) }
    }

    private func place() -> String { random.pick(Self.packages) + random.pick(Self.folders) }

    private func member(_ matches: (ItemRow) -> Bool = { _ in true }) throws -> String? {
        let paths = try device.paths().filter { $0.path.contains(Self.suffix + "/") && matches($0.row) }
        return paths.isEmpty ? nil : random.pick(paths).path
    }

    private func change() async throws {
        let path = "\(place())/\(random.pick(Self.names))", bytes = newBytes()
        note("writes \(path), \(bytes.count) bytes")
        if try device.row(path) == nil {
            try await device.create(path, bytes)
        } else {
            try await device.overwrite(path, bytes)
        }
    }

    private func moveBetween() throws {
        guard let old = try member() else { return }
        let last = old.split(separator: "/").last.map(String.init) ?? old
        let new = "\(place())/\(random.chance(0.7) ? last : random.pick(Self.names))"
        note("moves \(old) to \(new)")
        try device.rename(old, new, random.chance(0.3) ? .replacing : .exclusive)
    }

    private func moveOutOrIn() throws {
        if random.chance(0.6) {
            guard let old = try member() else { return }
            note("moves \(old) out")
            try device.rename(old, "out \(random.below(4))", .exclusive)
        } else {
            guard let old = try anyPath({ $0.kind == .file }) else { return }
            let new = "\(place())/\(random.pick(Self.names))"
            note("moves \(old) in, to \(new)")
            try device.rename(old, new, .exclusive)
        }
    }

    private func removeMember() throws {
        guard let path = try member() else { return }
        note("removes \(path)")
        try device.remove(path)
    }

    private func renamePackage() throws {
        let (old, new) = (random.pick(Self.packages), random.pick(Self.packages))
        note("renames \(old) to \(new)")
        try device.rename(old, new, random.chance(0.5) ? .exchanging : .exclusive)
    }
}
