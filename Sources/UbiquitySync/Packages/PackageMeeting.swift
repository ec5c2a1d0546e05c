internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

/// Two concurrent states of a package, made without knowledge of each other: the local one and the cloud's.
struct PackageMeeting: Sendable {
    /// The package's folder.
    var key: ItemKey
    var id: ItemID
    /// The position of the feed. Changes with this base know the cloud's whole state.
    var revision: Revision
    /// All local items in the package, its folder first.
    var rows: [ItemRow]
    /// Items deleted locally in the package.
    var deleted: [ItemRow]
    /// Items whose local changes concern this package.
    var own: Set<ItemID> = []
    /// All items in the package at the cloud. Nil if the package was deleted there.
    var remotes: [RemoteItem]?
    /// Items of the cloud's state that exist locally but are not shown in the package. They were moved into it at the
    /// cloud or out of it here, or they wait for a name.
    var elsewhere: Set<ItemID> = []
    /// The local places of items that were moved into the package at the cloud but not moved here. Nil for a place in
    /// another package that may have a newer state.
    var places: [ItemID: Place?] = [:]
    /// Other packages that contain such a place.
    var neighbours: Set<ItemID> = []
    /// Records of local rows and local deletions that are outside the package at the cloud, or deleted there.
    var departed: [ItemID: RemoteItem]
    /// The paths of the cloud's items.
    var remotePaths: [ItemID: [ItemName]]
    var paths: [ItemKey: [ItemName]]
    /// The place to which a package deleted at the cloud returns. Nil if it was deleted here, or if the cloud lacks the
    /// folder.
    var place: Place?
    /// The targets of hard links in the package.
    var linked: [ItemID: ItemRow]
    var linkedRemotes: [ItemID: RemoteItem]

    var isDeletedHere: Bool { rows.isEmpty }
}

extension IndexQueries {
    /// Both states of a package, or nil if the package is unknown.
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

    /// The place to which a package deleted at the cloud returns. That is its last place at the cloud, since another
    /// device may have moved it. It is the local place if the package was moved here, or if the cloud's folder is gone
    /// or lies inside the package.
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

    /// Whether the folder and all its ancestors exist at the cloud.
    private func isLive(_ folder: ItemRow) throws -> Bool {
        if folder.key == .root { return true }
        var next = folder.id
        // Bounded by the maximum depth, in case the records form a cycle.
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
    /// The local state, made of the known contents. Nil if the package was deleted here.
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

    /// The cloud's state. Nil if the package was deleted there.
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

    /// The changes that make the cloud's state equal to the local one. They are based on the cloud's whole state.
    /// - Parameter group: the changes planned for the upload, by item.
    func overriding(
        _ group: [ItemID: PlannedChange], _ contents: [ItemKey: MemberContent], newVersion: () -> VersionID
    ) -> (planned: [PlannedChange], others: [ItemChange]) {
        var planned = [PlannedChange](), left = group
        let ids = Dictionary(rows.map { ($0.key, $0.id) }) { first, _ in first }
        let known = Dictionary((remotes ?? []).map { ($0.id, $0) }) { first, _ in first }
        for row in rows.dropFirst() where !row.isExcluded {
            let remote = known[row.id] ?? departed[row.id]
            // An item created here may exist at the cloud already, if the answer to its commit was lost.
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

    /// Gives a package that was deleted at the cloud the place `place`, unless its folder's own change sets another.
    private func bringBack(_ change: inout ItemChange) {
        guard remotes == nil, let place, change.baseRevision != .zero, case .put(var fields) = change.action
        else { return }
        fields.place = fields.place ?? place
        change.action = .put(fields)
        change.baseRevision = max(revision, change.baseRevision)
    }

    /// Changes that remove items of the cloud's state that are not in the local one. An item moved in at the cloud
    /// returns to its local place, with its subtree. It returns to another package only if that has no newer state,
    /// which may lack the item. An item moved out here moves with its containing folder.
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

    /// Whether the cloud's state has the files, names and contents that were known here before any local change. Only
    /// modes, times or attributes differ.
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
            // The place before a local move or deletion is not recorded.
            if row.dirty.contains(.place) || row.isDeleted { return item.revision <= row.dirtyBase }
            return paths[row.key] == remotePaths[item.id]
        }
    }

    /// Whether the cloud moved the item out of the package. It remains outside as a document of its own, and its local
    /// changes merge as for any other item.
    private func isOutside(_ id: ItemID) -> Bool { departed[id].map { !$0.isDeleted } ?? false }

    /// The time of the last local change.
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
                // The cloud may have had this content before, also without this device's knowledge. Under its old
                // version id it would not count as a change.
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
