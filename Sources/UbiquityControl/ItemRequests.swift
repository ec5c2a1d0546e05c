/// Items of one mount, named by their paths.
package struct PathsRequest: Codable, Hashable, Sendable {
    /// From the mount's root, without a slash in front; the root itself is empty.
    package var paths: [String]

    package init(paths: [String]) { self.paths = paths }
}

/// `ControlRoute.evict`.
package struct EvictRequest: Codable, Hashable, Sendable {
    /// From the mount's root, without a slash in front; the root itself is empty.
    package var paths: [String]
    /// In seconds: only files that no program on this device has used for so long.
    package var unusedFor: Double?

    package init(paths: [String], unusedFor: Double? = nil) {
        self.paths = paths
        self.unusedFor = unusedFor
    }
}

/// The result for one item of a request. A folder yields one for each item in it.
package struct ItemResult: Codable, Hashable, Sendable {
    package var path: String
    package var done: Bool
    /// True if the item already was as requested, so nothing was done. Nil from a daemon that does not report it.
    package var unchanged: Bool?
    /// Bytes of content downloaded or evicted.
    package var bytes: Int64?
    /// Why it was not done; nil if it was.
    package var error: ControlFailure?

    package init(path: String, unchanged: Bool = false, bytes: Int64? = nil, error: ControlFailure? = nil) {
        self.path = path
        done = error == nil
        self.unchanged = error == nil ? unchanged : nil
        self.bytes = bytes
        self.error = error
    }
}

/// One line of the answer to `ControlRoute.itemStatus`: a report, or the reason for its absence.
package struct ItemStatusLine: Codable, Hashable, Sendable {
    package var report: ItemReport?
    package var failure: ItemResult?

    package init(report: ItemReport) { self.report = report }
    package init(failure: ItemResult) { self.failure = failure }
}
