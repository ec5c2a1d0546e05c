internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

// What a user decides about conflict versions.
extension RandomUser {
    func decide() async throws {
        let files = try device.index.read { try $0.itemsInConflict(limit: 20) }
        guard !files.isEmpty else { return }
        let row = random.pick(files)
        let conflicts = try device.index.read { try $0.conflicts(of: row.id) }
        guard !conflicts.isEmpty else { return }
        let conflict = random.pick(conflicts)
        switch random.below(4) {
        case 0, 1:
            note("resolves \(conflict.id) of \(row.key)")
            try device.index.decide([(.resolve, conflict.id)], of: row.key)
        case 2:
            note("restores \(conflict.id) of \(row.key)")
            try device.index.decide([(.restore, conflict.id)], of: row.key)
        default: try await move(conflict, of: row)
        }
    }

    /// Over the file, or to a new name.
    private func move(_ conflict: RemoteVersion, of row: ItemRow) async throws {
        note("moves \(conflict.id) of \(row.key)")
        let copy = try await device.engine.copy(conflict)
        guard let entry = row.entry, let folder = try device.index.row(key: entry.parent),
            let target = try device.index.row(key: row.key)
        else { return try device.store.remove(copy) }
        let isNew = random.chance(0.5)
        let name = isNew ? entry.name.numbered(7) : entry.name
        do {
            let fingerprint = SimulatedDevice.fingerprint(try device.read(device.store.open(copy, writable: false)))
            let old = try device.index.place(
                conflict, of: row.key, content: copy, ino: nil,
                at: VersionPlace(parent: folder.ino, name: name, isExclusive: isNew))
            guard let placed = try device.index.child(of: folder.key, named: name) else { return }
            device.ledger.close(placed.key, fingerprint, before: isNew ? nil : target)
            if let old { try device.store.remove(old) }
        } catch {
            try device.store.remove(copy)
            throw error
        }
    }
}
