internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

/// Two states of a package that were made without knowing of each other: the one here and the one at the cloud.
struct PackageMeeting: Sendable {
    /// The package's folder.
    var key: ItemKey
    var id: ItemID
    /// The feed was read up to here: changes that say so know all of the cloud's state.
    var revision: Revision
    /// All that lies in the package here, and its folder itself first.
    var rows: [ItemRow]
    /// What was deleted in it here.
    var deleted: [ItemRow]
    /// Items whose changes here are about this package.
    var own: Set<ItemID> = []
    /// All that lies in it at the cloud; nil if it was deleted there.
    var remotes: [RemoteItem]?
    /// Items of the cloud's state that are here and not shown in the package: moved in there or out here, or waiting
    /// for a name.
    var elsewhere: Set<ItemID> = []
    /// Where those lie here that were moved in there and not moved here; nil: in another package that may have a newer
    /// state.
    var places: [ItemID: Place?] = [:]
    /// Other packages in which such a place is.
    var neighbours: Set<ItemID> = []
    /// The records of the rows, and of what was deleted here, that lie elsewhere at the cloud, or were deleted there.
    var departed: [ItemID: RemoteItem]
    /// Where the cloud's items lie.
    var remotePaths: [ItemID: [ItemName]]
    var paths: [ItemKey: [ItemName]]
    /// Where the package goes if it was deleted there; nil if it was deleted here, or the cloud does not have the
    /// folder.
    var place: Place?
    /// What hard links in it are names of.
    var linked: [ItemID: ItemRow]
    var linkedRemotes: [ItemID: RemoteItem]

    var isDeletedHere: Bool { rows.isEmpty }
}

extension IndexReader {
    /// Both states of a package; nil if it is not known.
    func meeting(of key: ItemKey, _ index: ItemIndex) throws -> PackageMeeting? {
        guard let top = try row(key: key) else { return nil }
        var meeting = PackageMeeting(
            key: key, id: top.id, revision: try feedPosition().revision, rows: [], deleted: [], remotes: nil,
            departed: [:], remotePaths: [:], paths: [key: []], linked: [:], linkedRemotes: [:])
        if let remote = try remote(id: top.id), !remote.isDeleted {
            try collectRemotes(of: remote, &meeting)
            try collectPlaces(around: remote.parent, &meeting, index)
        }
        if let entry = top.entry, !top.isDeleted {
            meeting.place = try placeComingBack(top, entry)
            meeting.rows = try members(of: key, limit: .max)
            for row in meeting.rows.dropFirst() {
                guard let entry = row.entry, let above = meeting.paths[entry.parent] else { continue }
                meeting.paths[row.key] = above + [entry.name]
                if let id = row.linkedID { meeting.linked[id] = try named(row) }
                if meeting.remotePaths[row.id] == nil { meeting.departed[row.id] = try remote(id: row.id) }
            }
        }
        return meeting
    }

    /// Where the package goes if it was deleted there: where it lay at the end, for another device may have put it
    /// there; where it is here if it was put there here, or if where it lay is gone or is in something of its own.
    private func placeComingBack(_ top: ItemRow, _ entry: ItemRow.Entry) throws -> Place? {
        if !top.dirty.contains(.place), let remote = try remote(id: top.id), remote.isDeleted,
            let folder = try row(id: remote.parent), !folder.isDeleted, try isLive(folder),
            try !isWithin(folder.key, top.key)
        {
            return Place(parent: remote.parent, name: remote.name)
        }
        guard let parent = try row(key: entry.parent),
            try parent.key == .root || remote(id: parent.id)?.isDeleted == false
        else { return nil }
        return Place(parent: parent.id, name: entry.name)
    }

    /// Whether the folder and all above it are at the cloud.
    private func isLive(_ folder: ItemRow) throws -> Bool {
        if folder.key == .root { return true }
        var next = folder.id
        // As many as folders can lie in each other, should the records be in a ring.
        for _ in 0..<Limits.maximumDepth {
            guard let item = try remote(id: next), !item.isDeleted else { return false }
            if try row(id: item.parent)?.key == .root { return true }
            next = item.parent
        }
        return false
    }

    private func collectRemotes(of top: RemoteItem, _ meeting: inout PackageMeeting) throws {
        var found = [top], next = 0
        meeting.remotePaths[top.id] = []
        while next < found.count {
            let folder = found[next], path = meeting.remotePaths[folder.id] ?? []
            next += 1
            guard folder.kind == .directory else { continue }
            for id in try remoteChildren(of: folder.id, limit: .max) {
                guard let item = try remote(id: id), meeting.remotePaths[id] == nil else { continue }
                meeting.remotePaths[id] = path + [item.name]
                if let row = try row(id: id), !row.isDeleted { meeting.elsewhere.insert(id) }
                found.append(item)
                if item.kind == .hardLink, let target = ItemID(bytes: item.linkTarget) {
                    meeting.linkedRemotes[target] = try remote(id: target)
                }
            }
        }
        meeting.remotes = found
    }

    private func collectPlaces(around folder: ItemID, _ meeting: inout PackageMeeting, _ index: ItemIndex) throws {
        var finder = PackageFinder(self, index)
        let unsettled = meeting.elsewhere.isEmpty
            ? [] : try changedPackages(index).union(heldPackages(index).keys).subtracting([meeting.key])
        for id in meeting.elsewhere {
            guard let row = try row(id: id), !row.dirty.contains(.place), !row.isExcluded, let entry = row.entry,
                let parent = try self.row(key: entry.parent)
            else { continue }
            let isThere = try parent.key == .root || remote(id: parent.id).map { !$0.isDeleted } ?? false
            let place = Place(parent: isThere ? parent.id : folder, name: entry.name)
            let package = try finder.package(ofFolder: entry.parent)
            let mayBeNewer = package.map { unsettled.contains($0) || !isThere } ?? false
            meeting.places[id] = .some(mayBeNewer ? nil : place)
            if !mayBeNewer, let neighbour = try package.flatMap({ try self.row(key: $0) }) {
                meeting.neighbours.insert(neighbour.id)
            }
        }
    }
}

/// A file's content in a state of a package.
struct MemberContent: Sendable {
    var version: VersionID
    var size: Int64
    var manifest: Manifest
}

extension PackageMeeting {
    /// The state here, of the contents that are known; nil if the package was deleted here.
    func mine(_ contents: [ItemKey: MemberContent]) -> PackageTree? {
        guard !isDeletedHere else { return nil }
        return PackageTree(
            rows.dropFirst().compactMap { row -> PackageMember? in
                guard let path = paths[row.key], !row.isExcluded else { return nil }
                let shown = row.linkedID.flatMap { linked[$0] } ?? row
                switch shown.kind {
                case .directory, .symlink:
                    return PackageMember(
                        path: path, kind: shown.kind, mode: shown.mode, createdAt: shown.createdAt,
                        modifiedAt: shown.modifiedAt, xattrs: shown.xattrs, linkTarget: shown.linkTarget)
                case .file:
                    guard let content = contents[shown.key] else { return nil }
                    return PackageMember(
                        path: path, kind: .file, mode: shown.mode, createdAt: shown.createdAt,
                        modifiedAt: shown.modifiedAt, xattrs: shown.xattrs, version: content.version,
                        size: content.size, manifest: content.manifest)
                case .hardLink, .fifo, .socket, .characterDevice, .blockDevice: return nil
                }
            })
    }

    /// The state at the cloud; nil if the package was deleted there.
    func theirs(_ manifests: [VersionID: Manifest]) -> PackageTree? {
        guard let remotes else { return nil }
        return PackageTree(
            remotes.dropFirst().compactMap { item -> PackageMember? in
                guard let path = remotePaths[item.id] else { return nil }
                let shown = item.kind == .hardLink
                    ? ItemID(bytes: item.linkTarget).flatMap { linkedRemotes[$0] } ?? item : item
                switch shown.kind {
                case .directory, .symlink:
                    return PackageMember(
                        path: path, kind: shown.kind, mode: shown.mode, createdAt: shown.createdAt,
                        modifiedAt: shown.modifiedAt, xattrs: shown.xattrs, linkTarget: shown.linkTarget)
                case .file:
                    guard let content = shown.content, let manifest = manifests[content.version] else { return nil }
                    return PackageMember(
                        path: path, kind: .file, mode: shown.mode, createdAt: shown.createdAt,
                        modifiedAt: shown.modifiedAt, xattrs: shown.xattrs, version: content.version,
                        size: content.size, manifest: manifest)
                case .hardLink, .fifo, .socket, .characterDevice, .blockDevice: return nil
                }
            })
    }

    /// What makes the cloud's state the one here: changes that know all of the cloud's.
    /// - Parameter group: the changes that were to go up, by their items.
    func overriding(
        _ group: [ItemID: PlannedChange], _ contents: [ItemKey: MemberContent], newVersion: () -> VersionID
    ) -> (planned: [PlannedChange], others: [ItemChange]) {
        var planned = [PlannedChange](), left = group
        let ids = Dictionary(rows.map { ($0.key, $0.id) }) { first, _ in first }
        let known = Dictionary((remotes ?? []).map { ($0.id, $0) }) { first, _ in first }
        for row in rows.dropFirst() where !row.isExcluded {
            let remote = known[row.id] ?? departed[row.id]
            // What was made here is known there if this device did not hear that it was taken.
            if row.dirty.contains(.created) && remote == nil || isOutside(row.id) { continue }
            left[row.id] = nil
            guard let remote else { continue }
            if let change = change(of: row, over: remote, contents[row.key], ids, newVersion) {
                planned.append(PlannedChange(row: row, change: change))
            }
        }
        for (id, change) in left.sorted(by: { $0.value.row.dirtyOrder < $1.value.row.dirtyOrder }) {
            var change = change
            let isOverriding = own.contains(id) && !isOutside(id)
            if isOverriding, change.change.baseRevision != .zero, id != self.id || change.change.action == .delete {
                change.change.baseRevision = max(revision, change.change.baseRevision)
            }
            if id == self.id { bringBack(&change.change) }
            planned.append(change)
        }
        return (planned, leaving(beside: planned))
    }

    /// A package that was deleted there goes to `place`, unless its folder's own change gives it another.
    private func bringBack(_ change: inout ItemChange) {
        guard remotes == nil, let place, change.baseRevision != .zero, case .put(var fields) = change.action
        else { return }
        fields.place = fields.place ?? place
        change.action = .put(fields)
        change.baseRevision = max(revision, change.baseRevision)
    }

    /// What makes items of the cloud's state go that are not in the one here. What was moved in there goes back to
    /// where it is here, with all that lies in it; into another package only if that has no newer state, which may be
    /// without it. What was moved out here goes with the folder that it lies in.
    private func leaving(beside planned: [PlannedChange]) -> [ItemChange] {
        let inside = Set(rows.map(\.id)), sent = Set(planned.map(\.change.id))
        var result = [ItemChange](), returned = Set<ItemID>(), moved = Set<ItemID>()
        for item in (remotes ?? []).dropFirst() where !inside.contains(item.id) {
            if returned.contains(item.parent) {
                returned.insert(item.id)
                continue
            }
            if sent.contains(item.id) || moved.contains(item.parent) && elsewhere.contains(item.id) {
                moved.insert(item.id)
                continue
            }
            var action = ItemChange.Action.delete
            if elsewhere.contains(item.id) {
                guard let place = places[item.id] else { continue }
                if let place {
                    action = .put(ChangedFields(place: place))
                    returned.insert(item.id)
                }
            }
            result.append(
                ItemChange(id: item.id, kind: item.kind, baseRevision: revision, changedAt: latest, action: action))
        }
        return result
    }

    /// Whether the cloud's state has the files, names and contents that were known here before anything was changed
    /// here: only rights, times or attributes are other.
    var isContentAsBefore: Bool {
        let shown = Set((rows + deleted).map(\.id))
        guard let remotes, departed.isEmpty, elsewhere.isSubset(of: shown) else { return false }
        let before = Dictionary((rows + deleted).map { ($0.id, $0) }) { first, _ in first }
        let kept = rows.dropFirst().filter { !$0.isExcluded && !$0.dirty.contains(.created) }
        guard remotes.count == kept.count + deleted.count(where: { $0.id != id }) + 1 else { return false }
        return remotes.dropFirst().allSatisfy { item in
            guard let row = before[item.id], row.kind == item.kind, row.version == item.content?.version else {
                return false
            }
            // Where it was before it was moved or deleted here nobody knows any more.
            if row.dirty.contains(.place) || row.isDeleted { return item.revision <= row.dirtyBase }
            return paths[row.key] == remotePaths[item.id]
        }
    }

    /// Moved out of the package at the cloud: it stays outside, as a document of its own, and what was changed of it
    /// here meets what was done with it there as of any other.
    private func isOutside(_ id: ItemID) -> Bool { departed[id].map { !$0.isDeleted } ?? false }

    /// When something was changed here last.
    var latest: Timestamp { (rows + deleted).filter { !$0.dirty.isEmpty }.map(\.lastChange).max() ?? .zero }

    /// Nil if there is no difference.
    private func change(
        of row: ItemRow, over remote: RemoteItem, _ content: MemberContent?, _ ids: [ItemKey: ItemID],
        _ newVersion: () -> VersionID
    ) -> ItemChange? {
        guard let entry = row.entry, let parent = ids[entry.parent] else { return nil }
        var change = ItemChange(
            id: row.id, kind: row.kind, baseRevision: revision,
            changedAt: row.dirty.isEmpty ? latest : row.dirtyAt,
            action: .undelete(Place(parent: parent, name: entry.name)))
        if remote.isDeleted, row.kind != .file { return change }
        var fields = ChangedFields()
        if remote.parent != parent || remote.name != entry.name {
            fields.place = Place(parent: parent, name: entry.name)
        }
        let isShown = row.dirty.contains(.mode) ? remote.mode == row.mode : row.showsMode(of: remote)
        if !isShown { fields.mode = row.mode }
        if remote.modifiedAt != row.modifiedAt || remote.createdAt != row.createdAt {
            fields.modifiedAt = row.modifiedAt
            fields.createdAt = row.createdAt
        }
        (fields.xattrsSet, fields.xattrsRemoved) = Overlay.difference(from: remote.xattrs, to: row.xattrs)
        if row.kind == .symlink, remote.linkTarget != row.linkTarget { fields.linkTarget = row.linkTarget }
        if row.kind == .file, let content, let there = remote.content {
            if there.version != content.version || remote.isDeleted {
                // The cloud may have had this content before, also without this device having heard of that: under its
                // old name it would not take it for a change.
                let isOther = there.version != content.version
                fields.content = ContentChange(
                    version: isOther ? newVersion() : content.version, baseVersion: there.version, size: content.size,
                    manifest: content.manifest)
            }
        }
        guard fields != ChangedFields() else { return nil }
        fields.earlier = row.earlierTimes(of: fields)
        change.action = .put(fields)
        return change
    }
}
