/// Ends a mount.
package struct StopRequest: Codable, Hashable, Sendable {
    /// Take the mount away at once and let programs that have files open in it finish by themselves.
    package var lazy: Bool

    package init(lazy: Bool) { self.lazy = lazy }
}

/// The mount is gone. What has not been uploaded is kept and goes up next time.
package struct StopReport: Codable, Hashable, Sendable {
    package var notUploaded: TransferTotal
    /// At most `MountStatus.maximumPendingItems`.
    package var pending: [PendingItem]
    /// What waits for somebody's decision, in words.
    package var held: String?

    package init(notUploaded: TransferTotal, pending: [PendingItem], held: String? = nil) {
        self.notUploaded = notUploaded
        self.pending = pending
        self.held = held
    }
}
