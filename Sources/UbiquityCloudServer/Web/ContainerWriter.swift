internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Changes a container as a device does: by commits, which all devices see in the feed.
struct ContainerWriter: Sendable {
    let service: any CloudService
    let browser: any ContainerBrowser
    let container: ContainerID
    let device: DeviceID
    let random: any RandomSource
    let timekeeper: any Timekeeper

    /// The name of the device, as versions and devices show it.
    static let deviceName = "web page"

    // MARK: Names and places

    func makeFolder(_ name: ItemName, in folder: ItemID) async throws -> ItemID {
        try await requireFolder(folder)
        guard try await browser.child(of: folder, named: name) == nil else { throw Self.taken(name) }
        let now = timekeeper.now(), id = ItemID(high: random.next(), low: random.next())
        let fields = ChangedFields(
            place: Place(parent: folder, name: name), mode: 0o755, createdAt: now, modifiedAt: now)
        try await commit([ItemChange(
            id: id, kind: .directory, baseRevision: .zero, changedAt: now, action: .put(fields))])
        return id
    }

    func rename(_ item: ItemID, to name: ItemName) async throws {
        let found = try await live(item)
        guard found.name != name else { return }
        guard try await browser.child(of: found.parent, named: name) == nil else { throw Self.taken(name) }
        try await requireFolder(found.parent)
        try await put([found], ChangedFields(place: Place(parent: found.parent, name: name)))
    }

    /// Moves items. A name that is taken in the folder gets a number.
    func move(_ items: [ItemID], to folder: ItemID) async throws {
        try await requireFolder(folder)
        let above = Set(try await browser.place(of: folder).folders.map(\.id)).union([folder])
        var changes = [ItemChange]()
        for item in items {
            let found = try await live(item)
            guard !above.contains(item) else {
                throw UbiquityError(.invalid, "\"\(found.name)\" cannot be moved into itself")
            }
            guard found.parent != folder else { continue }
            try await requireFolder(found.parent)
            let name = try await freeName(found.name, in: folder)
            changes.append(change(found, .put(ChangedFields(place: Place(parent: folder, name: name)))))
        }
        try await commit(changes)
    }

    // MARK: Deleting and restoring

    /// Moves items to the trash, folders with all that is in them.
    func delete(_ items: [ItemID]) async throws {
        for item in items {
            let found = try await live(item)
            try await requireFolder(found.parent)
            let all = try await browser.subtree(of: item, limit: WebLimits.deletedItems)
            // The deepest come first, because only an empty folder is deleted. Special files stay with their folder.
            for start in stride(from: 0, to: all.count, by: Limits.maximumChangesPerCommit) {
                let part = all.reversed()[...].dropFirst(start).prefix(Limits.maximumChangesPerCommit)
                try await commit(part.map { change($0, .delete) })
            }
            guard try await browser.place(of: item).item.isDeleted else {
                throw UbiquityError(
                    .busy, "\"\(found.name)\" was not deleted: it was changed meanwhile, or it has other names",
                    remedy: "look at it again, or delete it on a device")
            }
        }
    }

    /// Restores a deleted item to its place, or to the top folder if its folder is gone. A folder comes back with what
    /// was deleted with it.
    func restore(_ item: ItemID) async throws -> RemoteItem {
        let found = try await browser.place(of: item).item
        guard found.isDeleted else { return found }
        let parent = found.parent == .root ? nil : try? await browser.place(of: found.parent).item
        let isOrphan = found.parent != .root && (parent?.isDeleted ?? true)
        let place = isOrphan ? Place(parent: .root, name: found.name) : nil
        // Listed first: a restored folder is not in the trash any more.
        let members = try await membersDeleted(with: found)
        try await commit([change(found, .undelete(place))])
        for start in stride(from: 0, to: members.count, by: Limits.maximumChangesPerCommit) {
            let part = members.dropFirst(start).prefix(Limits.maximumChangesPerCommit)
            try await commit(part.map { change($0.item, .undelete(nil)) })
        }
        return try await browser.place(of: item).item
    }

    /// The items that were deleted with a folder, each after its own folder.
    private func membersDeleted(with folder: RemoteItem) async throws -> [TrashedItem] {
        guard folder.kind == .directory else { return [] }
        let siblings = try await trashed(in: folder.parent)
        guard let top = siblings.first(where: { $0.item.id == folder.id }) else { return [] }
        var inside = [TrashedItem](), folders = [folder.id]
        while let next = folders.popLast() {
            let children = try await trashed(in: next)
            inside += children
            guard inside.count <= WebLimits.deletedItems else {
                throw UbiquityError(
                    .tooLarge, "\"\(folder.name)\" has more than \(WebLimits.deletedItems) deleted items",
                    remedy: "restore it on a device")
            }
            folders += children.filter { $0.item.kind == .directory }.map(\.item.id)
        }
        let members = FolderDeletion.members(of: top, among: inside)
        return inside.filter { members.contains($0.item.id) }
    }

    /// All deleted items of a folder.
    private func trashed(in folder: ItemID) async throws -> [TrashedItem] {
        var found = [TrashedItem]()
        while true {
            let page = try await browser.trash(
                in: folder, after: found.last?.position, limit: Limits.maximumTrashPage)
            found += page.items
            guard page.hasMore, !page.items.isEmpty, found.count <= WebLimits.deletedItems else { return found }
        }
    }

    // MARK: Contents

    /// Adds an uploaded file.
    /// - Parameter isReplacing: whether a file of this name gets a new version. Otherwise the new file gets a number.
    func add(
        _ name: ItemName, in folder: ItemID, _ manifest: Manifest, size: Int64, isReplacing: Bool
    ) async throws {
        try await requireFolder(folder)
        let now = timekeeper.now()
        let existing = isReplacing ? try await browser.child(of: folder, named: name) : nil
        if let existing, existing.kind == .file {
            let content = ContentChange(
                version: newVersion(), baseVersion: existing.content?.version, size: size, manifest: manifest)
            return try await put([existing], ChangedFields(modifiedAt: now, content: content))
        }
        try await create(name, in: folder, manifest, size: size, now)
    }

    private func create(
        _ name: ItemName, in folder: ItemID, _ manifest: Manifest, size: Int64, _ now: Timestamp
    ) async throws {
        let content = ContentChange(version: newVersion(), baseVersion: nil, size: size, manifest: manifest)
        let fields = ChangedFields(
            place: Place(parent: folder, name: try await freeName(name, in: folder)), mode: 0o644, createdAt: now,
            modifiedAt: now, content: content)
        try await commit([ItemChange(
            id: ItemID(high: random.next(), low: random.next()), kind: .file, baseRevision: .zero, changedAt: now,
            action: .put(fields))])
    }

    /// Makes an earlier or conflicting version the current one. This resolves its conflict.
    func restore(_ version: VersionID, of item: ItemID) async throws {
        let found = try await live(item)
        try await requireFolder(found.parent)
        guard found.content?.version != version else { return }
        try await commit([change(
            found, .versions([.restore(version, as: newVersion(), base: found.content?.version)]))])
    }

    /// Keeps the current version: the other one is kept like an earlier version.
    func resolve(_ version: VersionID, of item: ItemID) async throws {
        try await commit([change(try await live(item), .versions([.resolve(version)]))])
    }

    /// Makes a file of its own of a conflict version, beside the item, and resolves the conflict.
    func keepBoth(_ version: VersionID, of item: ItemID) async throws {
        let found = try await live(item)
        try await requireFolder(found.parent)
        let versions = try await browser.versions(of: item)
        guard let other = versions.first(where: { $0.id == version }), other.kind == .conflict else {
            throw UbiquityError(.notFound, "this conflict was resolved meanwhile")
        }
        let manifest = try await service.manifest(of: version)
        // First the copy: after a failure in between both still exist.
        try await create(found.name, in: found.parent, manifest, size: other.content.size, other.modifiedAt)
        try await resolve(version, of: item)
    }

    // MARK: Parts

    private func live(_ item: ItemID) async throws -> RemoteItem {
        let found = try await browser.place(of: item).item
        guard item != .root else { throw UbiquityError(.notPermitted, "the top folder stays as it is") }
        guard !found.isDeleted else { throw UbiquityError(.notFound, "\"\(found.name)\" was deleted meanwhile") }
        return found
    }

    /// Throws unless the folder exists and is no part of a package. Only devices know whether a package is whole.
    func requireFolder(_ folder: ItemID) async throws {
        guard folder != .root else { return }
        let place = try await browser.place(of: folder)
        guard place.item.kind == .directory else {
            throw UbiquityError(.notDirectory, "\"\(place.item.name)\" is not a folder")
        }
        guard !place.item.isDeleted else {
            throw UbiquityError(.notFound, "the folder \"\(place.item.name)\" was deleted meanwhile")
        }
        let isInPackage = ItemRows.isPackage(place.item)
            || place.folders.contains { PackageRules.standard.isPackage($0.name, []) }
        guard !isInPackage else {
            throw UbiquityError(
                .notSupported, "the parts of a package cannot be changed here", remedy: "change them on a device")
        }
    }

    private func freeName(_ name: ItemName, in folder: ItemID) async throws -> ItemName {
        guard try await browser.child(of: folder, named: name) != nil else { return name }
        for number in 2...WebLimits.numberedNames {
            let numbered = name.numbered(number)
            if try await browser.child(of: folder, named: numbered) == nil { return numbered }
        }
        throw Self.taken(name)
    }

    private static func taken(_ name: ItemName) -> UbiquityError {
        UbiquityError(.alreadyExists, "there is an item named \"\(name)\" already", remedy: "choose another name")
    }

    private func newVersion() -> VersionID { VersionID(high: random.next(), low: random.next()) }

    private func change(_ item: RemoteItem, _ action: ItemChange.Action) -> ItemChange {
        ItemChange(
            id: item.id, kind: item.kind, baseRevision: item.revision, changedAt: timekeeper.now(), action: action)
    }

    private func put(_ items: [RemoteItem], _ fields: ChangedFields) async throws {
        try await commit(items.map { change($0, .put(fields)) })
    }

    private func commit(_ changes: [ItemChange]) async throws {
        guard !changes.isEmpty else { return }
        let response = try await service.commit(
            CommitRequest(
                id: RequestID(high: random.next(), low: random.next()), device: device, deviceName: Self.deviceName,
                changes: changes, sentAt: timekeeper.now()))
        let isUnknown = response.results.contains { $0.outcome == .unknownItem }
        guard !isUnknown else {
            throw UbiquityError(.notFound, "an item or its folder is gone", remedy: "open the page again")
        }
    }
}
