/// The decision about deletions that are on hold because there are many.
package struct DeletionsRequest: Codable, Hashable, Sendable {
    package enum Decision: String, Codable, CaseIterable, Hashable, Sendable {
        /// Uploads the deletions.
        case confirm
        /// Restores the items.
        case undo
    }

    package var decision: Decision
    package init(decision: Decision) { self.decision = decision }
}

package struct DeletionsReport: Codable, Hashable, Sendable {
    /// The number of deletions decided about.
    package var items: Int
    package init(items: Int) { self.items = items }
}
