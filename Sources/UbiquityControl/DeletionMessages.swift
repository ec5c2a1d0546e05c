/// What is to become of the deletions that are held because they are many.
package struct DeletionsRequest: Codable, Hashable, Sendable {
    package enum Decision: String, Codable, CaseIterable, Hashable, Sendable {
        /// They go up.
        case confirm
        /// The items come back.
        case undo
    }

    package var decision: Decision
    package init(decision: Decision) { self.decision = decision }
}

package struct DeletionsReport: Codable, Hashable, Sendable {
    /// How many deletions it was about.
    package var items: Int
    package init(items: Int) { self.items = items }
}
