internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Carries out a decision about two states of a package: first in one commit, then locally.
///
/// It holds nothing. `PackageSync` calls it. It sends through `CommitSender`, and reports to `PackageBacklog` and
/// `CommitOutcomes`. `StagedPackages` shows a package whose remote state remains.
struct PackageCommits: SyncRoom {
    let context: SyncContext
    let sender: CommitSender
    let contents: PendingContents
    let backlog: PackageBacklog
    let outcomes: CommitOutcomes
    let staged: StagedPackages

    /// Sends the decision that the local state loses and is kept.
    func sendLoss(_ decision: PackageDecision, _ meeting: PackageMeeting) async throws -> CommitResponse {
        try await sender.send(request(for: meeting, [], [decision.edit]))
    }

    func sendWhole(
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
        let response = try await sender.send(request(for: meeting, changes, [decision.edit] + others))
        var released = outgoing.decided.released
        if !decision.isAside { released.insert(meeting.key) }
        try await pool.run(evenIfCancelled: true) { [self, released] in
            try accept(decision.planned, response, releasing: released)
            if decision.isAside { try staged.showReadyPackages() }
        }
        backlog.recordDecided(packages)
        if decision.isAside { agenda.happened(.packageContentsAreWanted) }
    }

    /// Restores a package that was deleted elsewhere in several commits, if it has more files than one commit takes.
    /// There is no other state to mix it with.
    /// - Returns: false if one commit takes all of it.
    func sendInParts(_ decision: PackageDecision, _ meeting: PackageMeeting) async throws -> Bool {
        let limit = Limits.maximumChangesPerCommit - 1
        guard decision.others.isEmpty, decision.planned.count > limit else { return false }
        for start in stride(from: 0, to: decision.planned.count, by: limit) {
            let part = Array(decision.planned[start..<min(start + limit, decision.planned.count)])
            var edit = decision.edit
            edit.base = nil
            let response = try await sender.send(request(for: meeting, part.map(\.change), [edit]))
            try await pool.run(evenIfCancelled: true) { [self] in try accept(part, response, releasing: [meeting.key]) }
        }
        backlog.recordDecided([meeting.key])
        return true
    }

    /// Restores items that are local members of another package whose local state also wins, instead of deleting them.
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
        for meeting: PackageMeeting, _ changes: [ItemChange], _ edits: [PackageEdit]
    ) -> CommitRequest {
        var generator = SourcedGenerator(random)
        return CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: changes.contains { $0.id == meeting.id } ? changes : changes + [meeting.folderChange],
            packages: edits)
    }

    /// Uploads chunks of local files that the cloud has dropped.
    /// - Returns: whether all missing chunks were found here.
    func sendAgain(_ lacking: Set<ChunkID>, _ manifest: Manifest) async throws -> Bool {
        var isAll = true
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
            if let bytes {
                try await service.upload([Chunk(id: reference.id, bytes: bytes)])
            } else {
                isAll = false
            }
        }
        return isAll
    }

    // MARK: Locally

    /// Applies the answer after the local state has won, and releases the held records.
    /// - Parameter packages: the packages whose held records are released. Those of other packages remain held until
    ///   complete.
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
        outcomes.recordSent(planned)
    }

    /// The held records of decided packages, and those of them that wait for other packages.
    private func releasable(
        _ packages: Set<ItemKey>, _ transaction: IndexTransaction
    ) throws -> (released: [ItemID], staying: Set<ItemID>) {
        let held = try transaction.heldPackages(index).filter { packages.contains($0.key) }.values.flatMap { $0 }
        let staying = try transaction.heldForOthers(held, than: packages, index)
        return (held.filter { !staying.contains($0) }, staying)
    }

    /// Replaces the local state with the cloud's at once. The local state is kept at the cloud, or is equal. Missing
    /// contents become placeholders. Does nothing if a local item has changed since.
    func replace(_ meeting: PackageMeeting, _ response: CommitResponse?) async throws {
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
                // Look these up first: a losing item is briefly in no package.
                let held = try releasable([meeting.key], transaction)
                var reversal = PackageReversal(settler, device: configuration.device)
                try reversal.revert(meeting, holding: held.staying)
                settler = reversal.settler
                try settler.release(held.released)
                // Place all in one transaction, also for a large package: a program must not see half of it.
                try settler.settleAll(limit: SyncLimits.settleBatch + 2 * (rows.count + (meeting.remotes ?? []).count))
                return settler.dropped
            }
        }
        guard let dropped else { return agenda.pauseBriefly([meeting.key], .packageNeedsDecision) }
        discard(dropped)
        backlog.recordDecided([meeting.key])
        backlog.recordLoss(of: meeting.key, at: meeting.revision)
        contents.remove(meeting.rows.map(\.key))
        for row in meeting.rows { problems.clear(.upload, of: row.key) }
        connection.succeeded()
        agenda.happened(.packageWasReplaced)
    }
}

extension PlannedChange {
    /// Whether a locally changed content can be kept as part of a state, because its chunks are known.
    var hasWholeContent: Bool {
        guard row.kind == .file, row.dirty.contains(.content), case .put(let fields) = change.action else {
            return true
        }
        return fields.content?.manifest != nil
    }
}

extension ItemRow {
    /// Whether the row still shows the same state.
    func isSameState(as other: ItemRow) -> Bool {
        id == other.id && generation == other.generation && entry == other.entry && mode == other.mode
            && modifiedAt == other.modifiedAt && xattrs == other.xattrs && content == other.content
            && version == other.version && dirty == other.dirty && linkTarget == other.linkTarget
    }
}
