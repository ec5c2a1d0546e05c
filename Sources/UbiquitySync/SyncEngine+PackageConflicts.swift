internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// Concurrent changes of a package by two devices. The cloud has taken the first device's state and named the winner.
// The second device, this one, knows both states. In one commit it sends the winning state and keeps the losing one. If
// a third device changes the package in between, the cloud refuses again.
extension SyncEngine {
    func decide(_ conflict: PackageConflict, _ group: [PlannedChange], _ outgoing: Outgoing) async throws {
        let key = try await pool.run { [index] in try index.read { try $0.row(id: conflict.package)?.key } }
        guard let key, !outgoing.decided.packages.contains(key) else {
            // Another device has changed the package in between.
            agenda.happened(.feedIsNeeded)
            return agenda.pauseBriefly(outgoing.owners, .packageNeedsDecision)
        }
        let involved = outgoing.owners.union([key])
        guard let letGo = claims.claim(key) else { return agenda.pauseBriefly(involved, .packageNeedsDecision) }
        defer { letGo() }
        switch try await pool.run({ [self] in try look(at: key, conflict, group) }) {
        case .states(let meeting): try await decide(conflict, meeting, group, outgoing)
        case .notYet:
            agenda.happened(.feedIsNeeded)
            agenda.pauseBriefly(involved, .packageNeedsDecision)
        case .notWhole:
            noteUndecided(key)
            agenda.pauseBriefly(involved, .packageNeedsDecision)
        }
    }

    private func decide(
        _ conflict: PackageConflict, _ meeting: PackageMeeting, _ group: [PlannedChange], _ outgoing: Outgoing
    ) async throws {
        logger.info("two devices changed a package", metadata: ["package": "\(conflict.package)"])
        do {
            let manifests = try await theirManifests(meeting)
            let contents = try await myContents(meeting, group, manifests)
            let beside = outgoing.decided.others.count + outgoing.decided.packages.count
            let decision = try decision(conflict, meeting, group, contents, manifests, beside: beside)
            try await carryOut(decision, meeting, outgoing)
        } catch let full as CloudIsFull {
            noteRefusal(of: group.map(\.row.key), full.reason)
            agenda.pauseBriefly(outgoing.owners.union([meeting.key]), .packageNeedsDecision)
        } catch let error as UbiquityError where error.code == .noSpace || Self.isAboutContent(error) {
            noteRefusal(of: group.map(\.row.key), error)
            agenda.pauseBriefly(outgoing.owners.union([meeting.key]), .packageNeedsDecision)
        }
    }

    /// Both states, once the feed is read up to the conflict's revision and the local state is unchanged.
    private func look(at key: ItemKey, _ conflict: PackageConflict, _ group: [PlannedChange]) throws -> PackageLook {
        try index.read { reader in
            guard try reader.feedPosition().revision >= conflict.revision else { return .notYet }
            guard var meeting = try reader.meeting(of: key, index) else { return .notWhole }
            let members = meeting.rows.dropFirst().filter { !$0.isExcluded }
            guard !members.contains(where: \.isWriting) else { return .notYet }
            for planned in group {
                guard let row = try reader.row(key: planned.row.key), row.isSameState(as: planned.row),
                    planned.hasWholeContent
                else { return .notWhole }
            }
            let sent = Set(group.map(\.row.key))
            // A dirty item outside the group is not ready.
            guard members.allSatisfy({ $0.dirty.isEmpty || sent.contains($0.key) }) else { return .notWhole }
            // The same changes may concern another package, which has no conflict.
            var finder = PackageFinder(reader, index)
            let own = try group.filter { try finder.packages(changedBy: $0.row).contains(key) }
            meeting.own = Set(own.map(\.row.id))
            meeting.deleted = own.filter { $0.change.action == .delete }.map(\.row)
            // Items moved out of the package at the cloud remain outside, whatever happened to them here.
            for row in meeting.deleted where meeting.remotePaths[row.id] == nil {
                meeting.departed[row.id] = try reader.remote(id: row.id)
            }
            return .states(meeting)
        }
    }

    // MARK: Contents

    /// The manifests of the cloud's files. Files whose content is not uploaded yet are left out.
    private func theirManifests(_ meeting: PackageMeeting) async throws -> [VersionID: Manifest] {
        var result = [VersionID: Manifest]()
        for item in (meeting.remotes ?? []) + meeting.linkedRemotes.values {
            guard let content = item.content, content.isAvailable, result[content.version] == nil else { continue }
            result[content.version] = try await manifest(of: content)
        }
        return result
    }

    /// The contents of the local files. A content that only the cloud had and has dropped is left out.
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
            logger.warning("the cloud has dropped the content of a package's file", metadata: ["item": "\(row.id)"])
            return nil
        }
    }

    // MARK: The decision

    /// - Parameter beside: the number of changes of other packages in the commit that have no row here.
    private func decision(
        _ conflict: PackageConflict, _ meeting: PackageMeeting, _ group: [PlannedChange],
        _ contents: [ItemKey: MemberContent], _ manifests: [VersionID: Manifest], beside: Int
    ) throws -> PackageDecision {
        let mine = meeting.mine(contents), theirs = meeting.theirs(manifests)
        let edit = PackageEdit(id: meeting.id, base: meeting.revision, changedAt: meeting.latest)
        var here = PackageDecision(edit: edit, givesWay: false)
        let changes = Dictionary(group.map { ($0.change.id, $0) }) { first, _ in first }
        var generator = SourcedGenerator(random)
        (here.planned, here.others) = meeting.overriding(changes, contents) { VersionID(using: &generator) }
        var there = PackageDecision(edit: edit, givesWay: true)
        guard let theirs else { return mine == nil ? there : here }
        guard let mine else { return there }
        let own = group.filter { meeting.own.contains($0.row.id) || $0.row.key == meeting.key }
        let metadata = metadataAlone(own, of: meeting)
        if mine.hasContent(of: theirs) {
            guard !metadata.isEmpty else { return there }
            // Other local changes lose to the cloud's equal state once the metadata is sent. Until then that state is
            // held: placed beside the local items, it would create duplicates.
            let isPart = metadata.count < group.count
            return PackageDecision(planned: metadata, edit: edit, givesWay: false, isAside: isPart, isPart: isPart)
        }
        if !metadata.isEmpty, metadata.count == own.count {
            return PackageDecision(planned: group, edit: edit, givesWay: false, isAside: true)
        }
        if meeting.isContentAsBefore { return PackageDecision(planned: group, edit: edit, givesWay: false) }
        let isWhole = (meeting.remotes ?? []).allSatisfy { item in
            item.content.map { manifests[$0.version] != nil } ?? true
        }
        let isWholeHere = meeting.rows.allSatisfy { $0.kind != .file || $0.isExcluded || contents[$0.key] != nil }
        // One of the changes is that of the folder.
        let isOneCommit = here.planned.count + here.others.count + beside < Limits.maximumChangesPerCommit
        if conflict.isYoursNewer, isWhole, isWholeHere, isOneCommit {
            let name = conflict.deviceName.isEmpty ? "another device" : conflict.deviceName
            try keep(theirs, in: &here, from: conflict.device, name, conflict.modifiedAt)
            return here
        }
        try keep(mine, in: &there, from: configuration.device, configuration.deviceName, meeting.latest)
        return there
    }

    /// Local changes of modes, times or attributes of items whose content and place are unchanged. The cloud merges
    /// them field by field. Other changes are examined again afterwards.
    private func metadataAlone(_ own: [PlannedChange], of meeting: PackageMeeting) -> [PlannedChange] {
        let there = Set((meeting.remotes ?? []).map(\.id))
        return own.filter { planned in
            guard case .put(let fields) = planned.change.action, there.contains(planned.row.id) else { return false }
            return fields.content == nil && fields.place == nil && planned.change.baseRevision != .zero
        }
    }

    private func keep(
        _ tree: PackageTree, in decision: inout PackageDecision, from device: DeviceID, _ name: String,
        _ modifiedAt: Timestamp
    ) throws {
        let head = try tree.head()
        guard head.count <= Limits.maximumMessageLength else {
            throw UbiquityError(
                .tooLarge, "the package has too many files to keep its losing state",
                remedy: "copy it elsewhere and delete it, or split it into several packages")
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
}
