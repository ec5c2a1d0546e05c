internal import UbiquityCore
internal import UbiquityIndex

/// What a planner has looked at, and which of it goes.
///
/// In a circle (two files that exchange their names) something has to be counted on before it is decided about. If it
/// waits then after all, what was added since it was looked at is to be taken back: some of it counts on it.
struct PlannerDecisions {
    private enum Decision {
        /// Being looked at, since an addition of this depth.
        case open(depth: Int, isCountedOn: Bool)
        case goes
        case waits
    }

    private var decisions: [ItemKey: Decision] = [:]
    /// The outermost addition in which something was looked at that was counted on and waits.
    private var broken = Int.max

    /// How many rows go, wait or are being looked at.
    var count: Int { decisions.count }

    /// Marks a row as being looked at.
    /// - Returns: false if it is, or was.
    mutating func open(_ key: ItemKey, depth: Int) -> Bool {
        guard decisions[key] == nil else { return false }
        decisions[key] = .open(depth: depth, isCountedOn: false)
        return true
    }

    /// Whether a row goes, or may still: then the answer counts on it.
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

    /// Whether what was added in an addition of this depth is to be taken back, at its end.
    mutating func isBroken(depth: Int) -> Bool {
        guard broken >= depth, broken != .max else { return false }
        broken = .max
        return true
    }

    /// Takes back that a row goes: it may be looked at anew.
    mutating func withdraw(_ key: ItemKey) { decisions[key] = nil }

    mutating func removeAll() { self = PlannerDecisions() }
}
