internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// What was decided about two states of a package is done: in one commit, and then here.
extension SyncEngine {
    func carryOut(
        _ decision: PackageDecision, _ meeting: PackageMeeting, _ outgoing: Outgoing
    ) async throws {
        // Equal states: nothing need be told.
        if decision.givesWay, decision.lost == nil { return try await giveWay(meeting, nil) }
        for chunk in outgoing.chunks { try await service.upload([chunk]) }
        for chunk in decision.chunks { try await service.upload([chunk]) }
        do {
            if decision.givesWay {
                let response = try await sendPersistently(request([], [decision.edit], meeting))
                return try await giveWay(meeting, response)
            }
            if outgoing.decided.packages.isEmpty, try await sendInParts(decision, meeting) { return }
            try await sendWhole(decision, meeting, outgoing)
        } catch let other as PackageConflict {
            // What goes from one package to another is decided about with both.
            guard other.package != meeting.id, !decision.isPart else {
                feedSignal.fire()
                return restPackages(outgoing.owners.union([meeting.key]))
            }
            try await decide(other, decision.planned, outgoing.with(decision, about: meeting))
        } catch let error as MissingChunks {
            forgetPrepared(decision.planned, lacking: Set(error.ids))
            try await sendAgain(Set(error.ids), decision.edit.lost?.manifest ?? [])
            restPackages([meeting.key])
        } catch let error as OutdatedCommit {
            try await goOn(after: error)
        }
    }

    private func sendWhole(
        _ decision: PackageDecision, _ meeting: PackageMeeting, _ outgoing: Outgoing
    ) async throws {
        var others = decision.isPart ? [] : outgoing.packages.filter { $0.id != meeting.id }
        for neighbour in decision.others.isEmpty ? [] : meeting.neighbours.subtracting(others.map(\.id)).sorted() {
            others.append(PackageEdit(id: neighbour, base: meeting.revision, changedAt: meeting.latest))
        }
        let packages = decision.isPart ? [meeting.key] : outgoing.decided.packages.union([meeting.key])
        let rest = decision.others + (decision.isPart ? [] : outgoing.decided.others)
        let returned = try await pool.run { [self] in try returning(rest, into: packages) }
        let changes = (decision.planned.map(\.change) + returned).joinedByItem()
        let response = try await sendPersistently(request(changes, [decision.edit] + others, meeting))
        var released = outgoing.decided.released
        if !decision.isAside { released.insert(meeting.key) }
        try await pool.run(evenIfCancelled: true) { [self, released] in
            try accept(decision.planned, response, releasing: released)
            if decision.isAside { try showReadyPackages() }
        }
        noteDecided(packages)
        if decision.isAside { downloadSignal.fire() }
    }

    /// What leaves one of the packages lies in another one here, whose state stands too: it goes back there.
    private func returning(_ changes: [ItemChange], into packages: Set<ItemKey>) throws -> [ItemChange] {
        try index.read { reader in
            var finder = PackageFinder(reader, index)
            return try changes.map { change in
                guard change.action == .delete, let row = try reader.row(id: change.id), !row.isDeleted,
                    let entry = row.entry, let package = try finder.package(ofFolder: entry.parent),
                    packages.contains(package), let parent = try reader.row(key: entry.parent)
                else { return change }
                var change = change
                change.action = .put(ChangedFields(place: Place(parent: parent.id, name: entry.name)))
                return change
            }
        }
    }

    private func request(
        _ changes: [ItemChange], _ edits: [PackageEdit], _ meeting: PackageMeeting
    ) -> CommitRequest {
        var generator = SourcedGenerator(random)
        return CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: changes.contains { $0.id == meeting.id } ? changes : changes + [meeting.folderChange],
            packages: edits)
    }

    /// A package that was deleted elsewhere and has more files than a commit takes comes back in several: there is no
    /// other state that it could be mixed with.
    /// - Returns: false if one commit takes all of it.
    private func sendInParts(_ decision: PackageDecision, _ meeting: PackageMeeting) async throws -> Bool {
        let limit = Limits.maximumChangesPerCommit - 1
        guard decision.others.isEmpty, decision.planned.count > limit else { return false }
        for start in stride(from: 0, to: decision.planned.count, by: limit) {
            let part = Array(decision.planned[start..<min(start + limit, decision.planned.count)])
            var edit = decision.edit
            edit.base = nil
            let response = try await sendPersistently(request(part.map(\.change), [edit], meeting))
            try await pool.run(evenIfCancelled: true) { [self] in try accept(part, response, releasing: [meeting.key]) }
        }
        noteDecided([meeting.key])
        return true
    }

    /// Chunks of files that are here and that the cloud keeps no longer.
    private func sendAgain(_ lacking: Set<ChunkID>, _ manifest: Manifest) async throws {
        for reference in Set(manifest.filter { lacking.contains($0.id) }) {
            let bytes = try await pool.run { [self] () -> [UInt8]? in
                for location in try index.read({ try $0.locations(of: reference) }) {
                    guard let file = try? store.open(location.content, writable: false),
                        let bytes = try? file.read(count: reference.length, at: location.position),
                        ChunkNaming.name(of: bytes) == reference.id
                    else { continue }
                    return bytes
                }
                return nil
            }
            if let bytes { try await service.upload([Chunk(id: reference.id, bytes: bytes)]) }
        }
    }

    /// The state here stands: what was held of the other is over.
    /// - Parameter packages: the other ones' is held on, until all of it is here.
    private func accept(
        _ planned: [PlannedChange], _ response: CommitResponse, releasing packages: Set<ItemKey>
    ) throws {
        let dropped = try index.write(.remote) { transaction in
            let held = packages.isEmpty ? [] : try releasable(packages, transaction).released
            for id in held { try transaction.setState(id, .waiting) }
            var applier = CommitApplier(transaction, settler: settler(transaction), boot: configuration.boot)
            let own = CommitResponse(
                revision: response.revision, results: Array(response.results.prefix(planned.count)))
            try applier.apply(planned, own)
            let others = Array(response.results.dropFirst(planned.count))
            try applier.take(CommitResponse(revision: response.revision, results: others))
            for id in held { try applier.review(id) }
            return applier.dropped
        }
        discard(dropped)
        noteSent(planned)
    }

    /// What is held of packages that have been decided about, and of that, what waits for others.
    private func releasable(
        _ packages: Set<ItemKey>, _ transaction: IndexTransaction
    ) throws -> (released: [ItemID], staying: Set<ItemID>) {
        let held = try transaction.heldPackages(index).filter { packages.contains($0.key) }.values.flatMap { $0 }
        let staying = try transaction.heldForOthers(held, than: packages, index)
        return (held.filter { !staying.contains($0) }, staying)
    }

    /// The state here is kept at the cloud, or is the one there: the cloud's takes its place, all at once. What of it
    /// is not here comes as placeholders. Nothing is done if something was changed here since.
    private func giveWay(_ meeting: PackageMeeting, _ response: CommitResponse?) async throws {
        let dropped = try await pool.run(evenIfCancelled: true) { [self] in
            try index.write(.remote) { transaction -> [ContentID]? in
                var settler = settler(transaction)
                for result in response?.results ?? [] {
                    if let item = result.item { try settler.receive(item) }
                }
                let rows = meeting.rows + meeting.deleted
                for row in rows {
                    guard let now = try transaction.row(key: row.key), now.isSameState(as: row), !now.isWriting else {
                        return nil
                    }
                }
                // Looked up first: what gives way is in no package for a moment.
                let held = try releasable([meeting.key], transaction)
                try settler.giveWay(meeting, holding: held.staying, device: configuration.device)
                try settler.release(held.released)
                // In one go, also of a package of many: a program must not meet half of it.
                try settler.settleAll(limit: SyncLimits.settleBatch + 2 * (rows.count + (meeting.remotes ?? []).count))
                return settler.dropped
            }
        }
        guard let dropped else { return restPackages([meeting.key]) }
        discard(dropped)
        noteDecided([meeting.key])
        noteGivenWay(meeting.key, at: meeting.revision)
        push.withLock { state in
            for row in meeting.rows { state.prepared[row.key] = nil }
        }
        for row in meeting.rows { problems.clear(.upload, of: row.key) }
        connection.succeeded()
        downloadSignal.fire()
        progress.fire()
    }
}

extension [ItemChange] {
    /// The states of two packages may each say something of one item; a commit has one change of each.
    fileprivate func joinedByItem() -> [ItemChange] {
        var result = [ItemChange](), places: [ItemID: Int] = [:]
        for change in self {
            if let place = places[change.id] {
                result[place] = result[place].joined(with: change)
            } else {
                places[change.id] = result.count
                result.append(change)
            }
        }
        return result
    }
}

extension ItemChange {
    /// What one of them says goes before what the other leaves open. What one keeps is not deleted.
    fileprivate func joined(with other: ItemChange) -> ItemChange {
        var result = self
        result.baseRevision = Swift.max(baseRevision, other.baseRevision)
        switch (action, other.action) {
        case (.delete, _): result.action = other.action
        case (.put(var fields), .put(let others)):
            fields.place = fields.place ?? others.place
            fields.mode = fields.mode ?? others.mode
            fields.modifiedAt = fields.modifiedAt ?? others.modifiedAt
            fields.createdAt = fields.createdAt ?? others.createdAt
            fields.content = fields.content ?? others.content
            fields.linkTarget = fields.linkTarget ?? others.linkTarget
            if fields.xattrsSet.isEmpty, fields.xattrsRemoved.isEmpty {
                fields.xattrsSet = others.xattrsSet
                fields.xattrsRemoved = others.xattrsRemoved
            }
            result.action = .put(fields)
        case (.put(let fields), .undelete) where fields == ChangedFields(): result.action = other.action
        case (.put(var fields), .undelete(let place)):
            fields.place = fields.place ?? place
            result.action = .put(fields)
        default: break
        }
        return result
    }
}

extension PlannedChange {
    /// Whether a content that was changed here can be kept as part of a state: its chunks are known.
    var hasWholeContent: Bool {
        guard row.kind == .file, row.dirty.contains(.content), case .put(let fields) = change.action else {
            return true
        }
        return fields.content?.manifest != nil
    }
}

extension ItemRow {
    /// Whether it shows what it showed then.
    func isSameState(as other: ItemRow) -> Bool {
        id == other.id && generation == other.generation && entry == other.entry && mode == other.mode
            && modifiedAt == other.modifiedAt && xattrs == other.xattrs && content == other.content
            && version == other.version && dirty == other.dirty && linkTarget == other.linkTarget
    }
}

extension Settler {
    /// What was made of a package here goes back to what the cloud has. Rows that were made here are gone with that.
    /// - Parameters:
    ///   - held: what the cloud has in another package, about which it is to be decided too.
    ///   - device: this one.
    mutating func giveWay(_ meeting: PackageMeeting, holding held: Set<ItemID>, device: DeviceID) throws {
        for row in meeting.deleted { try forget(row) }
        let members = Set(meeting.rows.map(\.key))
        // From the innermost outwards.
        for row in meeting.rows.dropFirst().reversed() {
            guard let now = try transaction.row(key: row.key), try !keepsOutside(now, members) else { continue }
            let isOutside = meeting.departed[now.id].map { !$0.isDeleted } ?? false
            // What the cloud has outside is a document of its own: what was changed of it here meets what was done with
            // it there as of any other.
            let kept = isOutside ? now.dirty.subtracting([.created, .place])
                : try isWaitedFor(now, device) ? .content : []
            if now.dirty.contains(.created), kept.isEmpty, !isOutside { try takeAway(now, members) } else {
                try followCloud(now, keeping: kept, isOutside: isOutside, isHeld: held.contains(now.id))
            }
        }
    }

    /// What was changed of a file that the cloud's state is without, and that has a name outside of the package, is
    /// that name's.
    private func keepsOutside(_ row: ItemRow, _ members: Set<ItemKey>) throws -> Bool {
        guard row.dirty.contains(.content), row.isLinked, try transaction.remote(id: row.id)?.isDeleted == true else {
            return false
        }
        return try transaction.moveToOtherName(row, than: members, now: now)
    }

    /// Whether the cloud's state waits for a content that only this device has: it was announced from here and never
    /// sent, perhaps because it was changed before.
    private func isWaitedFor(_ row: ItemRow, _ device: DeviceID) throws -> Bool {
        guard row.kind == .file, row.dirty.contains(.content), let item = try transaction.remote(id: row.id),
            !item.isDeleted, let content = item.content
        else { return false }
        return !content.isAvailable && content.device == device
    }

    /// A deletion that does not hold: the record makes the item anew.
    private mutating func forget(_ row: ItemRow) throws {
        guard let now = try transaction.row(key: row.key), now.isDeleted else { return }
        if let content = now.content { try drop(content) }
        try transaction.delete(now)
        if try transaction.remote(id: now.id) != nil { try transaction.setState(now.id, .waiting) }
    }

    private mutating func takeAway(_ row: ItemRow, _ members: Set<ItemKey>) throws {
        if row.kind == .directory, try transaction.hasChildren(row.key) { return }
        // What has a name outside as well is not only the package's.
        if row.isLinked, try transaction.moveToOtherName(row, than: members, now: now) { return }
        if let content = row.content { try drop(content) }
        try transaction.delete(row)
        transaction.note(.removed, before: row, after: nil)
        try transaction.touchLinked(row.linkedID, now: now)
    }

    private mutating func followCloud(
        _ row: ItemRow, keeping kept: DirtyFields, isOutside: Bool, isHeld: Bool
    ) throws {
        guard !row.isExcluded, let item = try transaction.remote(id: row.id) else { return }
        var next = row
        next.dirty = kept
        if !kept.contains(.content) { next.nextVersion = nil }
        next.flags.remove(.returned)
        let isMoved = row.dirty.contains(.place) || isOutside && row.dirty.contains(.created)
        if isMoved { next.entry = nil }
        if next != row { try transaction.update(next, before: row) }
        if isMoved { transaction.note(.removed, before: row, after: nil) }
        if !item.isDeleted, row.kind == .file, !kept.contains(.content), let content = item.content,
            row.dirty.contains(.content) || row.version != content.version
        {
            try becomePlaceholder(next, of: item, content)
        }
        if isHeld { return }
        try transaction.setState(row.id, .waiting)
        if !item.isDeleted, let shown = try transaction.row(id: row.id) {
            let merged = Overlay.metadata(shown, old: nil, new: item, keepTimes: false)
            guard merged != shown else { return }
            try transaction.update(merged, before: shown)
            transaction.note(.attributes, before: shown, after: merged)
        }
    }
}
