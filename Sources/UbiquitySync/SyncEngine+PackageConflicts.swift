internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// What comes of two states of a package.
private struct PackageDecision {
    var planned: [PlannedChange] = []
    /// Changes of items that have no row here.
    var others: [ItemChange] = []
    var edit: PackageEdit
    /// Chunks of the kept state that are made here.
    var chunks: [Chunk] = []
    var lost: PackageTree?
    /// The state here gives way.
    var givesWay: Bool
    /// What was changed here says nothing of what is in the package: the cloud's state comes as if there were no
    /// conflict.
    var isAside = false
}

// Two devices have changed a package without knowing of each other. The cloud has taken the first and said which of the
// two is to stand; this device was second, knows both, and commits in one go what stands and what is kept. Should a
// third come between, the cloud refuses again.
extension SyncEngine {
    func decide(_ conflict: PackageConflict, _ group: [PlannedChange], _ outgoing: Outgoing) async throws {
        let key = try await pool.run { [index] in try index.read { try $0.row(id: conflict.package)?.key } }
        guard let key else { return restPackage(outgoing.package) }
        guard let letGo = claimPackage(key) else {
            restPackage(outgoing.package)
            return restPackage(key)
        }
        defer { letGo() }
        guard let meeting = try await pool.run({ [self] in try meeting(of: key, conflict, group) }) else {
            feedSignal.fire()
            restPackage(outgoing.package)
            return restPackage(key)
        }
        logger.info("two devices changed a package", metadata: ["package": "\(conflict.package)"])
        let manifests = try await theirManifests(meeting)
        let contents = try await myContents(meeting, group, manifests)
        guard let decision = try decision(conflict, meeting, group, contents, manifests) else {
            return restPackage(key)
        }
        do { try await carryOut(decision, meeting, outgoing) } catch let error as UbiquityError
            where Self.isAboutContent(error)
        {
            noteRefusal(of: group, error)
            restPackage(outgoing.package)
            restPackage(key)
        }
    }

    /// It is looked at again after a moment.
    private func restPackage(_ package: ItemKey?) {
        guard let package else { return }
        let until = timekeeper.now().advanced(bySeconds: SyncLimits.rescanDelay / .seconds(1))
        push.withLock { $0.rescanAt[package] = until }
    }

    /// Both states, once the feed has told all that the cloud spoke of, and if nothing was changed here since.
    private func meeting(
        of key: ItemKey, _ conflict: PackageConflict, _ group: [PlannedChange]
    ) throws -> PackageMeeting? {
        try index.read { reader in
            guard try reader.feedPosition().revision >= conflict.revision,
                var meeting = try reader.meeting(of: key, index)
            else { return nil }
            for planned in group {
                guard let row = try reader.row(key: planned.row.key), row.isSameState(as: planned.row),
                    planned.hasWholeContent
                else { return nil }
            }
            let sent = Set(group.map(\.row.key))
            // What is not in the group is not ready.
            let members = meeting.rows.dropFirst()
            guard members.allSatisfy({ $0.isExcluded || $0.dirty.isEmpty && !$0.isWriting || sent.contains($0.key) })
            else { return nil }
            // The same changes may be about another package too, in which there is no conflict.
            var finder = PackageFinder(reader, index)
            let own = try group.filter { try finder.packages(changedBy: $0.row).contains(key) }
            meeting.own = Set(own.map(\.row.id))
            meeting.deleted = own.filter { $0.change.action == .delete }.map(\.row)
            return meeting
        }
    }

    // MARK: Contents

    /// The chunks of the cloud's files. Those that have not come to the cloud are missing.
    private func theirManifests(_ meeting: PackageMeeting) async throws -> [VersionID: Manifest] {
        var result = [VersionID: Manifest]()
        for item in (meeting.remotes ?? []) + meeting.linkedRemotes.values {
            guard let content = item.content, content.isAvailable, result[content.version] == nil else { continue }
            result[content.version] = try await manifest(of: content)
        }
        return result
    }

    /// The contents of the files here. One that is only at the cloud, and is kept there no longer, is missing.
    private func myContents(
        _ meeting: PackageMeeting, _ group: [PlannedChange], _ manifests: [VersionID: Manifest]
    ) async throws -> [ItemKey: MemberContent] {
        var sent = [ItemKey: ContentChange]()
        for planned in group {
            guard case .put(let fields) = planned.change.action, let content = fields.content else { continue }
            sent[planned.row.key] = content
        }
        var result = [ItemKey: MemberContent]()
        for row in meeting.rows + meeting.linked.values where row.kind == .file && !row.isExcluded {
            if let content = sent[row.key], let manifest = content.manifest {
                result[row.key] = MemberContent(version: content.version, size: content.size, manifest: manifest)
            } else if let version = row.version, !row.dirty.contains(.content),
                let manifest = try await manifest(of: row, version, manifests)
            {
                let size = manifest.reduce(Int64(0)) { $0 + Int64($1.length) }
                result[row.key] = MemberContent(version: version, size: size, manifest: manifest)
            }
        }
        return result
    }

    private func manifest(
        of row: ItemRow, _ version: VersionID, _ manifests: [VersionID: Manifest]
    ) async throws -> Manifest? {
        if let known = manifests[version] { return known }
        let record = try await pool.run { [index] in
            try index.read { reader in try row.content.flatMap { try reader.contentRecord($0) } }
        }
        if let record, record.version == version { return record.manifest }
        do { return try await service.manifest(of: version) } catch let error as UbiquityError
            where error.code == .notFound || error.code == .notUploadedYet
        {
            logger.warning("the cloud keeps a package's file no longer", metadata: ["item": "\(row.id)"])
            return nil
        }
    }

    // MARK: The decision

    /// Nil if neither state can be kept now.
    private func decision(
        _ conflict: PackageConflict, _ meeting: PackageMeeting, _ group: [PlannedChange],
        _ contents: [ItemKey: MemberContent], _ manifests: [VersionID: Manifest]
    ) throws -> PackageDecision? {
        let mine = meeting.mine(contents), theirs = meeting.theirs(manifests)
        let edit = PackageEdit(id: meeting.id, base: meeting.revision, changedAt: meeting.latest)
        var here = PackageDecision(edit: edit, givesWay: false)
        let changes = Dictionary(group.map { ($0.change.id, $0) }) { first, _ in first }
        var generator = SourcedGenerator(random)
        (here.planned, here.others) = meeting.overriding(changes, contents) { VersionID(using: &generator) }
        var there = PackageDecision(edit: edit, givesWay: true)
        guard let theirs else { return mine == nil ? there : here }
        guard let mine else { return there }
        if mine.hasContent(of: theirs) {
            guard var decision = metadataAlone(group, of: meeting, edit) else { return there }
            // What else was changed here gives way to what is there already, when these have been told. Till then that
            // is held: beside what is here it would be a second file of its name.
            decision.isAside = decision.planned.count < group.count
            return decision
        }
        if var decision = metadataAlone(group, of: meeting, edit), decision.planned.count == group.count {
            decision.isAside = true
            return decision
        }
        if meeting.isContentAsBefore { return PackageDecision(planned: group, edit: edit, givesWay: false) }
        let isWhole = (meeting.remotes ?? []).allSatisfy { item in
            item.content.map { manifests[$0.version] != nil } ?? true
        }
        let isWholeHere = meeting.rows.allSatisfy { $0.kind != .file || $0.isExcluded || contents[$0.key] != nil }
        // One of the changes is the folder's own.
        let isOneCommit = here.planned.count + here.others.count < Limits.maximumChangesPerCommit
        if conflict.isYoursNewer, isWhole, isWholeHere, isOneCommit {
            let name = conflict.deviceName.isEmpty ? "another device" : conflict.deviceName
            try keep(theirs, in: &here, from: conflict.device, name, conflict.modifiedAt)
            return here
        }
        try keep(mine, in: &there, from: configuration.device, configuration.deviceName, meeting.latest)
        return there
    }

    /// Rights, times and attributes that were changed here, of items whose contents and places are the same there: the
    /// cloud merges them field by field. Nil if there are none. What else was changed is looked at again after that.
    private func metadataAlone(
        _ group: [PlannedChange], of meeting: PackageMeeting, _ edit: PackageEdit
    ) -> PackageDecision? {
        let there = Set((meeting.remotes ?? []).map(\.id))
        let planned = group.filter { planned in
            guard case .put(let fields) = planned.change.action, there.contains(planned.row.id) else { return false }
            return fields.content == nil && fields.place == nil && planned.change.baseRevision != .zero
        }
        return planned.isEmpty ? nil : PackageDecision(planned: planned, edit: edit, givesWay: false)
    }

    private func keep(
        _ tree: PackageTree, in decision: inout PackageDecision, from device: DeviceID, _ name: String,
        _ modifiedAt: Timestamp
    ) throws {
        let head = try tree.head()
        guard head.count <= Limits.maximumMessageLength else {
            throw UbiquityError(
                .tooLarge, "the package has too many files for its other state to be kept",
                remedy: "copy it aside and delete it, or make it several packages")
        }
        var manifest = Manifest()
        for start in stride(from: 0, to: head.count, by: Limits.maximumChunkLength) {
            let bytes = Array(head[start..<min(start + Limits.maximumChunkLength, head.count)])
            let chunk = Chunk(id: ChunkNaming.name(of: bytes), bytes: bytes)
            decision.chunks.append(chunk)
            manifest.append(ChunkReference(id: chunk.id, length: bytes.count))
        }
        var generator = SourcedGenerator(random)
        decision.lost = tree
        decision.edit.lost = LostPackage(
            version: VersionID(using: &generator), size: Int64(head.count) + tree.contentSize,
            manifest: manifest + tree.manifest, modifiedAt: modifiedAt, device: device, deviceName: name)
    }

    // MARK: Carrying it out

    private func carryOut(
        _ decision: PackageDecision, _ meeting: PackageMeeting, _ outgoing: Outgoing
    ) async throws {
        // Equal states: nothing need be told.
        if decision.givesWay, decision.lost == nil { return try await giveWay(meeting, nil) }
        for chunk in outgoing.chunks { try await service.upload([chunk]) }
        for chunk in decision.chunks { try await service.upload([chunk]) }
        let others = outgoing.packages.filter { $0.id != meeting.id }
        do {
            if decision.givesWay {
                let response = try await sendPersistently(request([], [decision.edit], meeting))
                return try await giveWay(meeting, response)
            }
            if try await sendInParts(decision, meeting) { return }
            let changes = decision.planned.map(\.change) + decision.others
            let response = try await sendPersistently(request(changes, [decision.edit] + others, meeting))
            try await pool.run(evenIfCancelled: true) { [self] in
                try accept(decision.planned, response, of: meeting, releasing: !decision.isAside)
            }
            push.withLock { $0.packagesSince[meeting.key] = nil }
            if decision.isAside { downloadSignal.fire() }
        } catch is PackageConflict {
            feedSignal.fire()
            restPackage(meeting.key)
        } catch let error as MissingChunks {
            forgetPrepared(decision.planned, lacking: Set(error.ids))
            try await sendAgain(Set(error.ids), decision.edit.lost?.manifest ?? [])
            restPackage(meeting.key)
        } catch let error as OutdatedCommit {
            try await goOn(after: error)
        }
    }

    private func request(
        _ changes: [ItemChange], _ edits: [PackageEdit], _ meeting: PackageMeeting
    ) -> CommitRequest {
        var generator = SourcedGenerator(random)
        let folder = ItemChange(
            id: meeting.id, kind: .directory, baseRevision: meeting.revision, changedAt: meeting.latest,
            action: .put(ChangedFields()))
        return CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: changes.contains { $0.id == meeting.id } ? changes : changes + [folder], packages: edits)
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
            try await pool.run(evenIfCancelled: true) { [self] in try accept(part, response, of: meeting) }
        }
        push.withLock { $0.packagesSince[meeting.key] = nil }
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
    /// - Parameter releasing: false if it is held on, until all of it is here.
    private func accept(
        _ planned: [PlannedChange], _ response: CommitResponse, of meeting: PackageMeeting, releasing: Bool = true
    ) throws {
        let dropped = try index.write(.remote) { transaction in
            let held = releasing ? try transaction.heldPackages(index)[meeting.key] ?? [] : []
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
        if !releasing { try showReadyPackages() }
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
                let held = try transaction.heldPackages(index)[meeting.key] ?? []
                try settler.giveWay(meeting)
                try settler.release(held)
                // In one go, also of a package of many: a program must not meet half of it.
                try settler.settleAll(limit: SyncLimits.settleBatch + 2 * (rows.count + (meeting.remotes ?? []).count))
                return settler.dropped
            }
        }
        guard let dropped else { return restPackage(meeting.key) }
        discard(dropped)
        push.withLock { state in
            state.packagesSince[meeting.key] = nil
            for row in meeting.rows { state.prepared[row.key] = nil }
        }
        for row in meeting.rows { problems.clear(.upload, of: row.key) }
        connection.succeeded()
        downloadSignal.fire()
        progress.fire()
    }
}

extension PlannedChange {
    /// Whether a content that was changed here can be kept as part of a state: its chunks are known.
    fileprivate var hasWholeContent: Bool {
        guard row.kind == .file, row.dirty.contains(.content), case .put(let fields) = change.action else {
            return true
        }
        return fields.content?.manifest != nil
    }
}

extension ItemRow {
    /// Whether it shows what it showed then.
    fileprivate func isSameState(as other: ItemRow) -> Bool {
        id == other.id && generation == other.generation && entry == other.entry && mode == other.mode
            && modifiedAt == other.modifiedAt && xattrs == other.xattrs && content == other.content
            && version == other.version && dirty == other.dirty && linkTarget == other.linkTarget
    }
}

extension Settler {
    /// What was made of a package here goes back to what the cloud has. Rows that were made here are gone with that.
    mutating func giveWay(_ meeting: PackageMeeting) throws {
        for row in meeting.deleted { try forget(row) }
        // From the innermost outwards.
        for row in meeting.rows.dropFirst().reversed() {
            guard let now = try transaction.row(key: row.key) else { continue }
            if now.dirty.contains(.created) { try takeAway(now) } else { try followCloud(now) }
        }
    }

    /// A deletion that does not hold: the record makes the item anew.
    private mutating func forget(_ row: ItemRow) throws {
        guard let now = try transaction.row(key: row.key), now.isDeleted else { return }
        if let content = now.content { try drop(content) }
        try transaction.delete(now)
        if try transaction.remote(id: now.id) != nil { try transaction.setState(now.id, .waiting) }
    }

    private mutating func takeAway(_ row: ItemRow) throws {
        if row.kind == .directory, try transaction.hasChildren(row.key) { return }
        // What has a name outside as well is not only the package's.
        if row.isLinked, try transaction.moveToOtherName(row, now: now) { return }
        if let content = row.content { try drop(content) }
        try transaction.delete(row)
        transaction.note(.removed, before: row, after: nil)
        try transaction.touchLinked(row.linkedID, now: now)
    }

    private mutating func followCloud(_ row: ItemRow) throws {
        guard !row.isExcluded, let item = try transaction.remote(id: row.id) else { return }
        var next = row
        next.dirty = []
        next.nextVersion = nil
        next.flags.remove(.returned)
        let isMoved = row.dirty.contains(.place)
        if isMoved { next.entry = nil }
        if next != row { try transaction.update(next, before: row) }
        if isMoved { transaction.note(.removed, before: row, after: nil) }
        if !item.isDeleted, row.kind == .file, let content = item.content,
            row.dirty.contains(.content) || row.version != content.version
        {
            try becomePlaceholder(next, of: item, content)
        }
        try transaction.setState(row.id, .waiting)
        if !item.isDeleted, let shown = try transaction.row(id: row.id) {
            let merged = Overlay.metadata(shown, old: nil, new: item, keepTimes: false)
            guard merged != shown else { return }
            try transaction.update(merged, before: shown)
            transaction.note(.attributes, before: shown, after: merged)
        }
    }
}
