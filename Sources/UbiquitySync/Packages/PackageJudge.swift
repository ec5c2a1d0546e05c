internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Decides about two states of a package: which one wins, whether the other is kept, and which changes say so. A value
/// type, pure.
struct PackageJudge {
    var conflict: PackageConflict
    var meeting: PackageMeeting
    /// The local changes.
    var group: [PlannedChange]
    /// The contents of the local files.
    var contents: [ItemKey: MemberContent]
    /// The manifests of the cloud's files.
    var manifests: [VersionID: Manifest]
    var device: DeviceID
    var deviceName: String
    var random: any RandomSource

    /// - Parameter beside: the number of changes of other packages in the commit that have no row here.
    func decision(beside: Int) throws -> PackageDecision {
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
        let metadata = metadataAlone(own)
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
        try keep(mine, in: &there, from: device, deviceName, meeting.latest)
        return there
    }

    /// Local changes of modes, times or attributes of items whose content and place are unchanged. The cloud merges
    /// them field by field. Other changes are examined again afterwards.
    private func metadataAlone(_ own: [PlannedChange]) -> [PlannedChange] {
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
