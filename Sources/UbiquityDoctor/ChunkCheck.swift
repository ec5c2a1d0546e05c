internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// Checks which chunks the cloud has, and uploads the missing ones again.
struct ChunkCheck: Check {
    let context: CheckContext

    /// Bytes sent in one request.
    private static let repairBytes = 4 << 20

    func run(_ diagnosis: inout Diagnosis) async throws {
        let live = try await pool.run { [index] in try index.read { try $0.liveRecords().keys.sorted() } }
        var checked = Set<ChunkID>()
        for start in stride(from: 0, to: live.count, by: SyncLimits.rowsPerRead) {
            let part = live[start..<min(start + SyncLimits.rowsPerRead, live.count)]
            try await examine(try await manifests(of: Array(part)), &checked, &diagnosis)
        }
        // By default, check conflicts only: a quick answer is worth more than earlier versions.
        let conflictsOnly = !options.readsAll
        let others = try await pool.run { [index] in
            try index.read { try $0.itemsWithVersions(conflictsOnly: conflictsOnly) }
        }
        for id in others {
            let known = try await otherVersions(of: id, &diagnosis)
            try await examine(known, &checked, &diagnosis)
        }
    }

    private func examine(
        _ contents: [KnownContent], _ checked: inout Set<ChunkID>,
        _ diagnosis: inout Diagnosis
    ) async throws {
        let wanted = contents.flatMap(\.manifest).filter { checked.insert($0.id).inserted }
        diagnosis.chunks += wanted.count
        for lacking in try await lackingChunks(wanted.map(\.id)) {
            diagnosis.add(try await repair(lacking.id, lacking.kind, contents))
        }
    }

    /// Conflicts and earlier versions of a file, or states of a package.
    private func otherVersions(of id: ItemID, _ diagnosis: inout Diagnosis) async throws -> [KnownContent] {
        guard let item = try await pool.run({ [index] in try index.read { try $0.remote(id: id) } }) else { return [] }
        var result = [KnownContent]()
        do {
            let all = try await service.allVersions(of: id)
            // The records report conflicts.
            if all.isIncomplete, all.versions.count(where: { $0.kind == .conflict }) >= item.conflictCount {
                diagnosis.add([Self.unreadableVersions(of: item)])
            }
            for version in all.versions where version.kind != .current {
                guard version.content.isAvailable, version.content.size > 0 else { continue }
                let moment = CivilTime.text(version.modifiedAt).prefix(19)
                let name = "\(item.name), version of \(moment)Z (\(version.id.description.prefix(8)))"
                let manifest = try await device.manifest(of: version.content)
                result.append(KnownContent(item: id, name: name, manifest: manifest))
            }
        } catch let error as UbiquityError where [.notFound, .notUploadedYet, .damaged].contains(error.code) {
            // Deleted or removed meanwhile, or already found damaged.
        }
        return result
    }

    private static func unreadableVersions(of item: RemoteItem) -> Finding {
        Finding(
            .versionMissing, "\(item.name)", "the cloud cannot read all earlier versions of item \(item.id)",
            .unrepaired("no device has them; the current version and the listed ones are intact"))
    }

    private struct KnownContent: Sendable {
        var item: ItemID
        var name: String
        var manifest: Manifest
    }

    /// The contents that the cloud claims to have.
    private func manifests(of items: [ItemID]) async throws -> [KnownContent] {
        var result = [KnownContent]()
        for id in items {
            guard let item = try await pool.run({ [index] in try index.read { try $0.remote(id: id) } }),
                let content = item.content, content.isAvailable, content.size > 0
            else { continue }
            do {
                let manifest = try await device.manifest(of: content)
                result.append(KnownContent(item: id, name: "\(item.name)", manifest: manifest))
            } catch let error as UbiquityError where error.code == .notFound || error.code == .notUploadedYet {
                // Replaced meanwhile.
                continue
            }
        }
        return result
    }

    private func lackingChunks(
        _ ids: [ChunkID]
    ) async throws -> [(id: ChunkID, kind: Finding.Kind)] {
        var result = [(id: ChunkID, kind: Finding.Kind)]()
        for start in stride(from: 0, to: ids.count, by: Limits.maximumChunksPerRequest) {
            let part = Array(ids[start..<min(start + Limits.maximumChunksPerRequest, ids.count)])
            let missing = Set(try await service.missingChunks(of: part))
            let unsound = options.readsAll ? try await service.unsoundChunks(of: part) : Array(missing)
            result += unsound.map { ($0, missing.contains($0) ? .chunkMissing : .chunkDamaged) }
        }
        return result
    }

    private func repair(
        _ id: ChunkID, _ kind: Finding.Kind, _ contents: [KnownContent]
    ) async throws -> [Finding] {
        let users = contents.filter { $0.manifest.contains { $0.id == id } }
        let names = users.prefix(3).map(\.name).joined(separator: ", ")
        // The content may have been replaced since.
        let still = try await service.missingChunks(of: [id])
        guard kind == .chunkDamaged || !still.isEmpty else { return [] }
        var outcome = Finding.Outcome.found
        if options.repairs {
            let bytes = try await pool.run { try self.bytes(of: id, users) }
            if let bytes {
                try await service.upload([Chunk(id: id, bytes: bytes)])
                // This request also makes the cloud sync the chunk, since no commit follows that would.
                let isThere = try await service.unsoundChunks(of: [id]).isEmpty
                outcome = isThere ? .repaired("uploaded again from here") : .unrepaired("the cloud did not keep it")
            } else {
                outcome = .unrepaired("this device does not have the chunk; run doctor on one that has \(names)")
            }
        }
        return [Finding(kind, names, "chunk \(id) at the cloud", outcome)]
    }

    /// The chunk's verified bytes, from any content of this device.
    private func bytes(of id: ChunkID, _ users: [KnownContent]) throws -> [UInt8]? {
        for user in users {
            guard let place = user.manifest.firstIndex(where: { $0.id == id }) else { continue }
            let chunk = user.manifest[place]
            for location in try index.read({ try $0.locations(of: chunk) }) {
                if let bytes = try read(chunk, in: location.content, at: location.position) { return bytes }
            }
            let layout = try ChunkLayout(user.manifest)
            if let content = try index.read({ try $0.row(id: user.item) })?.content,
                let bytes = try read(chunk, in: content, at: layout.range(of: place).lowerBound)
            {
                return bytes
            }
        }
        return nil
    }

    private func read(_ chunk: ChunkReference, in content: ContentID, at position: Int64) throws -> [UInt8]? {
        guard try store.exists(content) else { return nil }
        let bytes = try store.open(content, writable: false).read(count: chunk.length, at: position)
        return bytes.count == chunk.length && ChunkNaming.name(of: bytes) == chunk.id ? bytes : nil
    }
}
