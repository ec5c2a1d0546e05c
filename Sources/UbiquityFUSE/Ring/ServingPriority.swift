/// Decides at each look whether the direct servers run at the lowest priority, behind programs (see `ServerWatch`).
struct ServingPriority {
    /// In looks: how long they keep the usual priority after one has kept a program waiting. Each time it doubles,
    /// unless the lowest priority caused no wait for `steadiness` times the last period.
    static let shortestCalm = 50
    static let longestCalm = 6000
    static let steadiness = 10

    private(set) var isYielding = true
    private var calm = 0
    /// The look at which the present decision was made.
    private var began = 0

    /// - Parameter isStarved: whether a program has waited for a server that did not run.
    /// - Returns: whether the decision changes.
    mutating func look(_ number: Int, isStarved: Bool) -> Bool {
        let age = number - began
        if isYielding {
            guard isStarved else { return false }
            let isRare = calm == 0 || age > calm * Self.steadiness
            calm = isRare ? Self.shortestCalm : min(calm * 2, Self.longestCalm)
        } else {
            guard age > calm else { return false }
        }
        isYielding.toggle()
        began = number
        return true
    }
}
