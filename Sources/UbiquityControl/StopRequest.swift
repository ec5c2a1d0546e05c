/// Ends a mount.
package struct StopRequest: Codable, Hashable, Sendable {
    /// Detach the mount at once; programs with files open in it continue until they close them.
    package var lazy: Bool

    package init(lazy: Bool) { self.lazy = lazy }
}

/// The mount is gone. Changes not uploaded yet are kept and uploaded after the next mount.
package struct StopReport: Codable, Hashable, Sendable {
    package var notUploaded: TransferTotal
    /// At most `MountStatus.maximumPendingItems`.
    package var pending: [PendingItem]
    /// Text about items that wait for the user's decision.
    package var held: String?

    package init(notUploaded: TransferTotal, pending: [PendingItem], held: String? = nil) {
        self.notUploaded = notUploaded
        self.pending = pending
        self.held = held
    }
}
