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
    /// Why it was not done; nil if it was.
    package var error: ControlFailure?

    package init(path: String, error: ControlFailure? = nil) {
        self.path = path
        done = error == nil
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
