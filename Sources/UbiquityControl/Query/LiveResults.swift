/// The results of a query as last reported to its listener: the state from which updates are computed.
///
/// It contains only the items' ids, so a query with 200,000 results takes some megabytes.
package struct LiveResults<ID: Hashable & Sendable>: Sendable {
    package enum Change: Hashable, Sendable {
        case added
        case changed
        case removed
    }

    private var results: Set<ID> = []
    /// While all results are gathered anew: those not found again yet.
    private var missing: Set<ID>?

    package init() {}

    package var count: Int { results.count }

    /// Records whether an item is a result now.
    /// - Returns: the change to report; nil if it was no result and is none.
    package mutating func take(_ id: ID, isResult: Bool) -> Change? {
        missing?.remove(id)
        if isResult { return results.insert(id).inserted ? .added : .changed }
        return results.remove(id) == nil ? nil : .removed
    }

    /// Starts gathering all results anew, after changes were lost.
    package mutating func beginGathering() { missing = results }

    /// Ends gathering.
    /// - Returns: the results that were not found again. Examine each once more and record it: it may have moved during
    ///   the gathering.
    package mutating func endGathering() -> Set<ID> {
        defer { missing = nil }
        return missing ?? []
    }
}
