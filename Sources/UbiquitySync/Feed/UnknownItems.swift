internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Items that the cloud does not know and whose deletion this device has not seen. Either the cloud has forgotten an
/// old deletion, or a commit was repeated after a long absence.
///
/// It holds the items about which the feed is read. The uploader calls it with each answer to a commit.
final class UnknownItems: SyncRoom {
    let context: SyncContext
    /// Items that the cloud does not know. The feed is read, since it may report their deletion.
    private let askedAbout = Lock(Set<ItemID>())

    init(_ context: SyncContext) { self.context = context }

    /// Removes the changes of unknown items from an answer, the first time. The feed is read to its end before they are
    /// sent again, since it reports everything deleted with the item. If the cloud does not know the item then either,
    /// it is uploaded as new.
    func withoutUnknown(
        _ group: [PlannedChange], _ response: CommitResponse
    ) throws -> ([PlannedChange], CommitResponse) {
        guard group.count == response.results.count,
            response.results.contains(where: { $0.outcome == .unknownItem })
        else { return (group, response) }
        let unknown = zip(group, response.results).filter { $0.1.outcome == .unknownItem }.map(\.0)
        let present = try index.read { reader in
            try unknown.filter { try reader.countsAsPresent($0.row) }.map(\.change.id)
        }
        let unreported = notAskedAbout(present)
        guard !unreported.isEmpty else { return (group, response) }
        feed.update { $0.isCaughtUp = false }
        agenda.happened(.feedIsNeeded)
        let kept = zip(group, response.results).filter { !unreported.contains($0.0.change.id) }
        return (kept.map(\.0), CommitResponse(revision: response.revision, results: kept.map(\.1)))
    }

    /// - Returns: the items without a recent read of the feed.
    private func notAskedAbout(_ items: [ItemID]) -> Set<ItemID> {
        askedAbout.withLock { asked in
            let new = Set(items).subtracting(asked)
            asked.subtract(items)
            if asked.count > Limits.maximumChangesPerCommit { asked = [] }
            asked.formUnion(new)
            return new
        }
    }
}

extension IndexQueries {
    /// Whether the feed has reported the item, or the folder of a new one, and not its deletion.
    fileprivate func countsAsPresent(_ row: ItemRow) throws -> Bool {
        if let known = try remote(id: row.id) { return !known.isDeleted }
        guard let folder = try row.entry.flatMap({ try self.row(key: $0.parent) }) else { return false }
        return try remote(id: folder.id).map { !$0.isDeleted } ?? false
    }
}
