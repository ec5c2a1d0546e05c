internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

// A user's decisions about versions, and restorations from the trash.
extension Performer {
    func decide() async throws {
        let files = try device.index.read { try $0.itemsInConflict(withPackages: true, limit: 20) }
        guard !files.isEmpty else { return }
        let row = random.pick(files)
        let conflicts = try device.index.read { try $0.conflicts(of: row.id) }
        guard !conflicts.isEmpty else { return }
        let conflict = random.pick(conflicts)
        // A package's state is restored by the same calls as in the daemon.
        switch row.kind == .directory ? 0 : random.below(4) {
        case 0, 1:
            note("resolves \(conflict.id) of \(row.key)")
            try device.index.decide([(.resolve, conflict.id)], of: row.key)
        case 2:
            note("restores \(conflict.id) of \(row.key)")
            try device.index.decide([(.restore, conflict.id)], of: row.key)
        default: try await move(conflict, of: row)
        }
    }

    func restoreEarlier() async throws {
        guard let path = try anyPath({ $0.kind == .file }) else { return }
        let row = try device.live(path)
        let earlier = try await device.life.engine.service.versions(of: row.id).filter { $0.kind == .history }
        guard !earlier.isEmpty else { return }
        let version = random.pick(earlier)
        note("restores \(version.id) of \(path)")
        try device.index.decide([(.restore, version.id)], of: row.key)
    }

    /// Restores to the old place, or to another one.
    func undelete() async throws {
        let engine = try device.life.engine
        let trash = try await engine.trash.items(in: nil, limit: 20).items
        guard !trash.isEmpty else { return }
        let item = random.pick(trash)
        var place: Place?
        if random.chance(0.3), let path = try anyPath({ $0.kind == .directory && !$0.dirty.contains(.created) }) {
            place = Place(parent: try device.live(path).id, name: item.item.name)
        }
        note("brings \(item.path) back from the trash\(place == nil ? "" : ", to another folder")")
        _ = try await engine.trash.undelete(item, to: place)
    }

    /// Moves the version over the file, or to a new name.
    private func move(_ conflict: RemoteVersion, of row: ItemRow) async throws {
        note("moves \(conflict.id) of \(row.key)")
        let life = try device.life
        let copy = try await life.engine.versionDownloads.copy(conflict)
        guard let entry = row.entry, let folder = try life.index.row(key: entry.parent),
            let target = try life.index.row(key: row.key)
        else { return try life.store.remove(copy) }
        let isNew = random.chance(0.5)
        let taken = isNew ? [:] : device.ledger.take(target.content)
        do {
            let file = try life.store.open(copy, writable: false)
            let bytes = try file.read(count: Int(file.status().size), at: 0)
            let old = try life.index.place(
                conflict, of: row.key, content: copy, ino: nil,
                at: VersionPlace(
                    parent: folder.ino, name: isNew ? entry.name.numbered(7) : entry.name, isExclusive: isNew))
            if let old { life.store.retire([old]) }
            guard life.isAlive else { return }
            device.ledger.note(
                copy, Ledger.Entry(fingerprint: SimulatedDevice.fingerprint(bytes), isSynced: false))
        } catch {
            try life.store.remove(copy)
            if life.isAlive { device.ledger.putBack(taken) }
            throw error
        }
    }
}
