internal import Logging
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
package import UbiquityWire

/// The trash: lists deleted items and restores them. The cloud keeps it, and this device has no copy.
///
/// It holds nothing. The commands call it. It sends its commits through `CommitSender`.
package struct Trash: SyncRoom {
    package let context: SyncContext
    let sender: CommitSender

    private var answers: CommitAnswers { CommitAnswers(context: context) }

    /// Items restored in one commit.
    private static let undeletedPerCommit = 500
    /// Attempts of a commit that other commits overtake. This happens only on a connection that loses requests.
    private static let overtakings = 20

    /// Deleted items, the most recent first.
    /// - Parameter folder: lists the items of this deleted folder. Nil lists items that were not deleted along with
    ///   their folder.
    package func items(in folder: ItemID?, limit: Int) async throws -> TrashPage {
        try connection.requireAllowed()
        var result = TrashPage(items: [], hasMore: true)
        while result.hasMore, result.items.count < limit {
            let wanted = min(limit - result.items.count, Limits.maximumTrashPage)
            let position = result.items.last?.position
            let page = try await patiently {
                try await service.trash(in: folder, after: position, limit: wanted)
            }
            result.items += page.items
            // An empty page has no position to continue from.
            result.hasMore = page.hasMore && !page.items.isEmpty
        }
        return result
    }

    /// The deleted item that was at a path: the most recently deleted one, or nil if there is none.
    package func item(at path: String) async throws -> TrashedItem? {
        var folder: ItemID?
        // Each round descends one folder.
        for _ in 0..<Limits.maximumDepth {
            var found: TrashedItem?, next: ItemID?
            try await eachTrashed(in: folder) { item in
                if found == nil, item.path.isSamePath(as: path) { found = item }
                if next == nil, item.item.kind == .directory, path.isPath(in: item.path) { next = item.item.id }
            }
            if let found { return found }
            guard let next else { return nil }
            folder = next
        }
        return nil
    }

    /// The items of the last deletion in an existing folder, usually one restored without its content. For a deleted
    /// subfolder, only the folder itself.
    package func items(deletedIn folder: String) async throws -> [TrashedItem] {
        var found = [TrashedItem]()
        try await eachTrashed(in: nil) { item in
            guard item.path.isPath(in: folder) else { return }
            if let last = found.last, !FolderDeletion.isOne(item, last) { return }
            found.append(item)
        }
        return found
    }

    /// The deleted item with this id, or nil if there is none.
    package func item(_ id: ItemID) async throws -> TrashedItem? {
        var folders: [ItemID?] = [nil], seen = Set<ItemID>()
        while let folder = folders.popLast() {
            var found: TrashedItem?
            try await eachTrashed(in: folder) { item in
                if item.item.id == id { found = item }
                if item.item.kind == .directory, seen.insert(item.item.id).inserted { folders.append(item.item.id) }
            }
            if let found { return found }
        }
        return nil
    }

    /// Restores an item. A folder is restored with the items deleted along with it.
    /// - Parameter place: the new place, or nil for the old one.
    /// - Returns: how many items were restored.
    package func undelete(_ trashed: TrashedItem, to place: Place?) async throws -> Int {
        // List all members before the first is restored: restoring one may restore the folder of others, which is then
        // no deleted item any more.
        let members = try await members(of: [trashed])
        try await undelete([(trashed.item, place)])
        try await undeleteInParts(members)
        return 1 + members.count
    }

    /// Restores several items, each to its old place.
    package func undelete(_ trashed: [TrashedItem]) async throws -> Int {
        let members = try await members(of: trashed)
        try await undeleteInParts(trashed + members)
        return trashed.count + members.count
    }

    /// The items deleted along with these folders, each after its containing folder.
    private func members(of trashed: [TrashedItem]) async throws -> [TrashedItem] {
        var found = [TrashedItem](), seen = Set<ItemID>()
        for root in trashed where root.item.kind == .directory {
            var inside = [TrashedItem](), folders = [root.item.id]
            while let folder = folders.popLast() {
                try await eachTrashed(in: folder) { child in
                    guard seen.insert(child.item.id).inserted else { return }
                    inside.append(child)
                    if child.item.kind == .directory { folders.append(child.item.id) }
                }
            }
            let along = FolderDeletion.members(of: root, among: inside)
            found += inside.filter { along.contains($0.item.id) }
        }
        return found
    }

    private func undeleteInParts(_ trashed: [TrashedItem]) async throws {
        for start in stride(from: 0, to: trashed.count, by: Self.undeletedPerCommit) {
            let part = trashed[start..<min(start + Self.undeletedPerCommit, trashed.count)]
            try await undelete(part.map { ($0.item, nil) })
        }
    }

    private func eachTrashed(in folder: ItemID?, _ body: (TrashedItem) throws -> Void) async throws {
        var position: TrashPosition?
        var hasMore = true
        while hasMore {
            try connection.requireAllowed()
            let after = position
            let page = try await patiently {
                try await service.trash(in: folder, after: after, limit: Limits.maximumTrashPage)
            }
            for item in page.items { try body(item) }
            position = page.items.last?.position
            hasMore = page.hasMore && position != nil
        }
    }

    private func undelete(_ items: [(item: RemoteItem, place: Place?)]) async throws {
        var generator = SourcedGenerator(random)
        let now = timekeeper.now()
        let request = CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: items.map { item, place in
                ItemChange(
                    id: item.id, kind: item.kind, baseRevision: item.revision, changedAt: now, action: .undelete(place))
            })
        let response = try await sendUntilTaken(request)
        try await pool.run(evenIfCancelled: true) { try self.answers.apply(response) }
    }

    /// Sends a commit, and repeats it while other commits of this device overtake it.
    private func sendUntilTaken(_ request: CommitRequest) async throws -> CommitResponse {
        for _ in 0..<Self.overtakings {
            do {
                return try await sender.send(request)
            } catch let error as OutdatedCommit {
                try await sender.raiseNumbers(after: error)
            } catch let refusal where refusal is CloudIsFull || refusal is MissingChunks || refusal is PackageConflict {
                throw UbiquityError.from(refusal)
            }
        }
        throw UbiquityError(
            .busy, "other changes of this device overtook it each time", remedy: "try it again")
    }
}
