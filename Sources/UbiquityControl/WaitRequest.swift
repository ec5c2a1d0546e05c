/// What to wait for. All conditions that are set must hold at once.
package struct WaitRequest: Codable, Hashable, Sendable {
    /// The items (folders with all that is in them); none is the whole mount.
    package var paths: [String]
    /// Every change of them is confirmed by the cloud.
    package var uploaded: Bool
    /// Their newest content is here.
    package var downloaded: Bool
    /// Nothing is pending either way in the whole mount, and the change feed has been read to its end.
    package var idle: Bool
    /// Seconds; nil waits for ever.
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

/// The end of a wait.
package struct WaitReport: Codable, Hashable, Sendable {
    /// False if the time ran out first.
    package var done: Bool
    /// What is still pending, at most `MountStatus.maximumPendingItems`.
    package var pending: [PendingItem]
    /// Why it has not come so far, e.g. that the cloud is away.
    package var reason: String?
    /// What ended the wait before its time.
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
