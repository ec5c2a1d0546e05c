package import UbiquityCore

/// The point up to which a device has read a container's feed, and the history that the point belongs to.
///
/// A revision alone does not identify a commit: after the cloud is restored from an older backup, other commits get the
/// same numbers. So the cloud draws a random mark for each revision, and the device sends back the mark it got.
package struct FeedPoint: Hashable, Sendable {
    package var revision: Revision
    /// The mark of the commit that made the revision, or 0 if the device does not know it.
    package var mark: UInt64
    /// The incarnation that the device knows. Nil from devices that do not send it.
    package var incarnation: UInt64?

    package init(_ revision: Revision, mark: UInt64 = 0, incarnation: UInt64? = nil) {
        self.revision = revision
        self.mark = mark
        self.incarnation = incarnation
    }
}

extension CloudService {
    /// The feed for a caller that knows only a revision.
    package func changes(after revision: Revision, limit: Int) async throws -> ChangePage {
        try await changes(after: FeedPoint(revision), limit: limit)
    }

    /// The snapshot for a caller that knows only a revision.
    package func snapshot(after revision: Revision, limit: Int) async throws -> ChangePage {
        try await snapshot(after: FeedPoint(revision), limit: limit)
    }
}
