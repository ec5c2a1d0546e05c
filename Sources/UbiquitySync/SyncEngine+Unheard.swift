internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// The cloud does not know an item of which this device has heard no end: it was deleted, and so long ago that the cloud
// has forgotten it, or a commit was repeated across a long absence.
extension SyncEngine {
    /// Takes these changes out of an answer, the first time: the feed is read to its end before they are sent once
    /// more. It tells of all that has gone along with the item; if the cloud does not know it then either, it goes up
    /// as a new one.
    func withoutUnheard(
        _ group: [PlannedChange], _ response: CommitResponse
    ) throws -> ([PlannedChange], CommitResponse) {
        guard group.count == response.results.count,
            response.results.contains(where: { $0.outcome == .unknownItem })
        else { return (group, response) }
        let unknown = zip(group, response.results).filter { $0.1.outcome == .unknownItem }.map(\.0)
        let unheard = askingFeed(about: try index.read { reader in
            try unknown.filter { try reader.isTakenToBeThere($0.row) }.map(\.change.id)
        })
        guard !unheard.isEmpty else { return (group, response) }
        feed.withLock { $0.isCaughtUp = false }
        feedSignal.fire()
        let kept = zip(group, response.results).filter { !unheard.contains($0.0.change.id) }
        return (kept.map(\.0), CommitResponse(revision: response.revision, results: kept.map(\.1)))
    }

    /// - Returns: those about which it has not been asked just now.
    private func askingFeed(about items: [ItemID]) -> Set<ItemID> {
        push.withLock { state in
            let new = Set(items).subtracting(state.askedFeedAbout)
            state.askedFeedAbout.subtract(items)
            if state.askedFeedAbout.count > Limits.maximumChangesPerCommit { state.askedFeedAbout = [] }
            state.askedFeedAbout.formUnion(new)
            return new
        }
    }
}

extension IndexReader {
    /// Whether the feed has told of the item, or of the folder that a new one lies in, and of no end.
    fileprivate func isTakenToBeThere(_ row: ItemRow) throws -> Bool {
        if let known = try remote(id: row.id) { return !known.isDeleted }
        guard let folder = try row.entry.flatMap({ try self.row(key: $0.parent) }) else { return false }
        return try remote(id: folder.id).map { !$0.isDeleted } ?? false
    }
}
