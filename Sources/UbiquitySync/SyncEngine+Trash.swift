internal import Logging
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
package import UbiquityWire

// The trash, which is the cloud's: nothing of it is known here.
extension SyncEngine {
    /// How long before its folder an item may have been deleted to count as deleted along with it: a large tree takes
    /// a while, from the innermost outwards.
    private static let deletionSpan = 3600.0
    /// Items that come back in one commit.
    private static let undeletedPerCommit = 500

    /// Deleted items, the last one first.
    /// - Parameter folder: a deleted folder whose items are meant; nil: those that did not go along with theirs.
    package func trash(in folder: ItemID?, limit: Int) async throws -> TrashPage {
        try connection.requireAllowed()
        var result = TrashPage(items: [], hasMore: true)
        while result.hasMore, result.items.count < limit {
            let wanted = min(limit - result.items.count, Limits.maximumTrashPage)
            let page = try await service.trash(in: folder, after: result.items.last?.position, limit: wanted)
            result.items += page.items
            result.hasMore = page.hasMore
        }
        return result
    }

    /// The deleted item that was at a path, of several the one that was deleted last; nil if there is none.
    package func trashed(at path: String) async throws -> TrashedItem? {
        var folder: ItemID?
        // Each round goes one folder further down.
        for _ in 0..<Limits.maximumDepth {
            var found: TrashedItem?, next: ItemID?
            try await eachTrashed(in: folder) { item in
                if found == nil, item.path == path { found = item }
                if next == nil, item.item.kind == .directory, path.hasPrefix(item.path + "/") { next = item.item.id }
            }
            if let found { return found }
            guard let next else { return nil }
            folder = next
        }
        return nil
    }

    /// The deleted item with this id; nil if there is none.
    package func trashed(_ id: ItemID) async throws -> TrashedItem? {
        var folders: [ItemID?] = [nil]
        while let folder = folders.popLast() {
            var found: TrashedItem?
            try await eachTrashed(in: folder) { item in
                if item.item.id == id { found = item }
                if item.item.kind == .directory { folders.append(item.item.id) }
            }
            if let found { return found }
        }
        return nil
    }

    /// Brings an item back, a folder with what was deleted along with it.
    /// - Parameter place: where to; nil is where it was.
    /// - Returns: how many items came back.
    package func undelete(_ trashed: TrashedItem, to place: Place?) async throws -> Int {
        try await undelete([(trashed.item, place)])
        var count = 1
        var folders = trashed.item.kind == .directory ? [trashed.item.id] : []
        while let folder = folders.popLast() {
            var found = [RemoteItem]()
            // Listed to the end before the first comes back: the list would change under the reading.
            try await eachTrashed(in: folder) { child in
                if Self.wentAlong(child, with: trashed) { found.append(child.item) }
            }
            for start in stride(from: 0, to: found.count, by: Self.undeletedPerCommit) {
                let part = found[start..<min(start + Self.undeletedPerCommit, found.count)]
                try await undelete(part.map { ($0, nil) })
            }
            count += found.count
            folders += found.filter { $0.kind == .directory }.map(\.id)
        }
        return count
    }

    private static func wentAlong(_ child: TrashedItem, with folder: TrashedItem) -> Bool {
        child.device == folder.device
            && child.deletedAt >= folder.deletedAt.advanced(bySeconds: -deletionSpan)
    }

    private func eachTrashed(in folder: ItemID?, _ body: (TrashedItem) throws -> Void) async throws {
        var position: TrashPosition?
        var hasMore = true
        while hasMore {
            try connection.requireAllowed()
            let page = try await service.trash(in: folder, after: position, limit: Limits.maximumTrashPage)
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
        let response: CommitResponse
        do {
            response = try await sendPersistently(request)
        } catch let error as OutdatedCommit {
            // Another commit was sent meanwhile and came first. It was not done, and stands for itself: once more.
            try await goOn(after: error)
            response = try await sendPersistently(request)
        }
        try await pool.run(evenIfCancelled: true) { try self.take(response) }
    }
}
