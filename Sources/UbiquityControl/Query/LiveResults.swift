/// Which items are results of a query, as whoever listens was last told: the state from which updates are made.
///
/// It has the items' identities alone, so a query with 200,000 results takes some megabytes.
package struct LiveResults<ID: Hashable & Sendable>: Sendable {
    package enum Change: Hashable, Sendable {
        case added
        case changed
        case removed
    }

    private var results: Set<ID> = []
    /// While everything is looked at anew: the results that have not been met yet.
    private var missing: Set<ID>?

    package init() {}

    package var count: Int { results.count }

    /// Takes what an item is by now.
    /// - Returns: what there is to tell of it; nil if it was no result and is none.
    package mutating func take(_ id: ID, isResult: Bool) -> Change? {
        missing?.remove(id)
        if isResult { return results.insert(id).inserted ? .added : .changed }
        return results.remove(id) == nil ? nil : .removed
    }

    /// Changes were lost: from here on everything is taken anew.
    package mutating func beginGathering() { missing = results }

    /// All that was found has been taken.
    /// - Returns: the results that were not found. Each is to be looked at once more and taken: it may have moved while
    ///   the others were read.
    package mutating func endGathering() -> Set<ID> {
        defer { missing = nil }
        return missing ?? []
    }
}
