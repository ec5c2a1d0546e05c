/// Items of one mount, named by their paths.
package struct PathsRequest: Codable, Hashable, Sendable {
    /// From the mount's root, without a slash in front; the root itself is empty.
    package var paths: [String]

    package init(paths: [String]) { self.paths = paths }
}

/// What became of one item of a request. Folders give one for each item in them.
package struct ItemResult: Codable, Hashable, Sendable {
    package var path: String
    package var done: Bool
    /// True if the item already was as requested, so nothing was done. Nil from a daemon that does not report it.
    package var unchanged: Bool?
    /// Bytes of content that were brought here or removed from here.
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

/// One line of the answer to `ControlRoute.itemStatus`: a report, or why there is none.
package struct ItemStatusLine: Codable, Hashable, Sendable {
    package var report: ItemReport?
    package var failure: ItemResult?

    package init(report: ItemReport) { self.report = report }
    package init(failure: ItemResult) { self.failure = failure }
}
