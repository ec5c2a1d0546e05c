internal import UbiquityCore
package import UbiquityIndex
package import UbiquityWire

// Queries about positions, pages and records of the feed. They change nothing.

extension IndexQueries {
    /// The next records that the snapshot lacks, marked as deleted.
    func deletedBySnapshot(at revision: Revision) throws -> [RemoteItem] {
        try remotesMissingFromSnapshot(limit: SyncLimits.settleBatch).map { item in
            var item = item
            item.isDeleted = true
            item.revision = max(item.revision, revision)
            return item
        }
    }

    /// Whether the record reports a change that this device did not make itself.
    func isNews(_ item: RemoteItem, for device: DeviceID) throws -> Bool {
        guard let known = try remote(id: item.id) else { return true }
        return known.revision < item.revision
            && (item.isDeleted || item.content?.version == known.content?.version || item.content?.device != device)
    }
}

extension FeedPosition {
    /// The position in the form that the cloud compares with its history.
    package var point: FeedPoint { FeedPoint(revision, mark: mark, incarnation: incarnation) }
}

extension ChangePage {
    /// - Throws: `.invalid` for a page that leads backwards or would be requested again for ever. A cache between this
    ///   device and the cloud may answer with an old page.
    func requireProgress(from position: Revision) throws {
        guard revision >= position, revision > position || !hasMore else {
            throw UbiquityError(
                .invalid, "the cloud's answer goes back from revision \(position) to \(revision)",
                remedy: "check proxies between this device and the cloud: one may answer from a cache")
        }
    }
}
