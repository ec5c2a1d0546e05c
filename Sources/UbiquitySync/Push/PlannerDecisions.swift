internal import UbiquityCore
internal import UbiquityIndex

/// The planner's decisions: rows under examination, rows to send, rows that wait.
///
/// In a cycle (two files that exchange names) a decision must be assumed before it is made. If the assumed row waits
/// after all, everything added since its examination began is withdrawn, because some of it relies on the assumption.
struct PlannerDecisions {
    private enum Decision {
        /// Under examination since an addition of this depth.
        case open(depth: Int, isCountedOn: Bool)
        case goes
        case waits
    }

    private var decisions: [ItemKey: Decision] = [:]
    /// The depth of the outermost addition that examined a row which others relied on and which waits.
    private var broken = Int.max

    /// The number of rows decided or under examination.
    var count: Int { decisions.count }

    /// Marks a row as under examination.
    /// - Returns: false if it is already decided or under examination.
    mutating func open(_ key: ItemKey, depth: Int) -> Bool {
        guard decisions[key] == nil else { return false }
        decisions[key] = .open(depth: depth, isCountedOn: false)
        return true
    }

    /// Whether the row is sent or may still be. In the latter case the caller relies on it.
    mutating func goes(_ key: ItemKey) -> Bool {
        switch decisions[key] {
        case .goes: return true
        case .waits, nil: return false
        case .open(let depth, _):
            decisions[key] = .open(depth: depth, isCountedOn: true)
            return true
        }
    }

    mutating func decide(_ key: ItemKey, goes: Bool) {
        if !goes, case .open(let depth, isCountedOn: true) = decisions[key] { broken = min(broken, depth) }
        decisions[key] = goes ? .goes : .waits
    }

    /// Whether the rows added in an addition of this depth must be withdrawn at its end.
    mutating func isBroken(depth: Int) -> Bool {
        guard broken >= depth, broken != .max else { return false }
        broken = .max
        return true
    }

    /// Withdraws a decision, so that the row may be examined again.
    mutating func withdraw(_ key: ItemKey) { decisions[key] = nil }

    mutating func removeAll() { self = PlannerDecisions() }
}
