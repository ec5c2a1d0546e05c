/// The conditions to wait for. All conditions that are set must hold at once.
package struct WaitRequest: Codable, Hashable, Sendable {
    /// The items (folders with all their contents); empty for the whole mount.
    package var paths: [String]
    /// The cloud has confirmed every change of them.
    package var uploaded: Bool
    /// Their newest content is on this device.
    package var downloaded: Bool
    /// No transfer is pending in the whole mount, and the change feed has been read to its end.
    package var idle: Bool
    /// In seconds; nil waits forever.
    package var timeout: Double?

    package init(
        paths: [String], uploaded: Bool = false, downloaded: Bool = false, idle: Bool = false, timeout: Double? = nil
    ) {
        self.paths = paths
        self.uploaded = uploaded
        self.downloaded = downloaded
        self.idle = idle
        self.timeout = timeout
    }
}

/// The result of a wait.
package struct WaitReport: Codable, Hashable, Sendable {
    /// False if the time ran out first.
    package var done: Bool
    /// Items still pending, at most `MountStatus.maximumPendingItems`.
    package var pending: [PendingItem]
    /// Why the conditions do not hold yet, e.g. that the cloud is unreachable.
    package var reason: String?
    /// The error that ended the wait early.
    package var failure: ControlFailure?

    package init(
        done: Bool, pending: [PendingItem] = [], reason: String? = nil, failure: ControlFailure? = nil
    ) {
        self.done = done
        self.pending = pending
        self.reason = reason
        self.failure = failure
    }
}
