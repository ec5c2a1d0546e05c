internal import UbiquityCore
internal import UbiquityIndex

// The usual ways of editors to save, unsynced names, and the difficult cases of eviction.
extension Performer {
    /// Names of the standard list of ignored names, one of them ignored by its suffix.
    static let ignoredNames = ["a~", ".a.swp", ".#b", "~$c", "k.nosync"]

    func save(_ action: Action) async throws {
        guard let path = try anySynced({ $0.kind == .file }) else { return }
        let bytes = newBytes(), synced = random.chance(0.4)
        note("\(action.rawValue) \(path), \(bytes.count) bytes\(synced ? ", synced" : "")")
        switch action {
        case .backupSave: try await device.backupSave(path, bytes, synced: synced)
        default: try await device.saveOver(path, bytes, synced: synced, through: ".goutputstream-\(random.below(1000))")
        }
    }

    func ignore() async throws {
        let name = random.pick(Self.ignoredNames)
        let folder = random.chance(0.5) ? try anySynced { $0.kind == .directory } : nil
        let path = folder.map { "\($0)/\(name)" } ?? name
        switch random.below(3) {
        case 0:
            guard let old = try anySynced({ _ in true }) else { return }
            note("renames \(old) to \(path)")
            try device.rename(old, path, random.chance(0.5) ? .replacing : .exclusive)
        case 1 where name.hasSuffix(".nosync"):
            note("makes folder \(path)")
            try device.makeFolder(path)
        default:
            note("creates \(path)")
            try await device.create(path, random.bytes(50))
        }
    }

    func evictHard() async throws {
        guard let path = try anySynced({ $0.kind == .file }) else { return }
        note("reads, evicts, reads and edits \(path)")
        _ = try await device.read(path)
        try device.evictIfAllowed(path)
        _ = try await device.readWhileEvicting(path)
        let bytes = random.bytes(40)
        try await device.edit(path) { _ in
            try? device.evictIfAllowed(path)
            return bytes
        }
        try device.evictIfAllowed(path)
    }

    private func anySynced(_ matches: (ItemRow) -> Bool) throws -> String? {
        let paths = try device.paths().filter { !PackageWatch.isWithin($0.path) && matches($0.row) }
        return paths.isEmpty ? nil : random.pick(paths).path
    }
}

extension SimulatedDevice {
    /// Saves as emacs and vim do: the document becomes the backup, a new file gets its name, the backup is removed.
    func backupSave(_ path: String, _ bytes: [UInt8], synced: Bool) async throws {
        let backup = path + "~"
        try rename(path, backup)
        await world.pause()
        try await create(path, bytes, synced: synced)
        await world.pause()
        try remove(backup)
    }

    /// Saves as GLib does: a hidden file of an ignored name in the same folder, renamed over the document.
    func saveOver(_ path: String, _ bytes: [UInt8], synced: Bool, through hidden: String) async throws {
        let folder = path.split(separator: "/").dropLast().joined(separator: "/")
        let temporary = folder.isEmpty ? hidden : "\(folder)/\(hidden)"
        try await create(temporary, bytes, synced: synced)
        await world.pause()
        try rename(temporary, path)
    }

    /// An open, changed or not uploaded file stays.
    func evictIfAllowed(_ path: String) throws {
        do { try evict(path) } catch let error as UbiquityError {
            guard [.busy, .notPermitted, .noSuchAttribute, .notFound].contains(error.code) else { throw error }
        }
    }
}
