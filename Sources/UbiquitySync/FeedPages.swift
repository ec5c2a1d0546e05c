internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

// Questions about positions, pages and records of the feed. They read, and change nothing.

extension IndexReader {
    /// Records that the snapshot did not have, as deleted ones; the next of them.
    func deletedBySnapshot(at revision: Revision) throws -> [RemoteItem] {
        try remotesMissingFromSnapshot(limit: SyncLimits.settleBatch).map { item in
            var item = item
            item.isDeleted = true
            item.revision = max(item.revision, revision)
            return item
        }
    }

    /// Whether the record tells something new of the item, and nothing that this device did itself.
    func isNews(_ item: RemoteItem, for device: DeviceID) throws -> Bool {
        guard let known = try remote(id: item.id) else { return true }
        return known.revision < item.revision
            && (item.isDeleted || item.content?.version == known.content?.version || item.content?.device != device)
    }
}

extension FeedPosition {
    /// The position as the cloud compares it with its history.
    var point: FeedPoint { FeedPoint(revision, mark: mark, incarnation: incarnation) }
}

extension ChangePage {
    /// Throws `.invalid` for a page that leads back, or would be asked for again and again: a cache between here and
    /// the cloud may answer with an old one.
    func requireProgress(from position: Revision) throws {
        guard revision >= position, revision > position || !hasMore else {
            throw UbiquityError(
                .invalid, "the cloud's answer leads from revision \(position) to \(revision)",
                remedy: "look at what is between here and the cloud, such as a proxy that caches")
        }
    }
}
