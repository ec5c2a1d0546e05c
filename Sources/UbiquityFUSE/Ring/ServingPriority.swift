/// Whether the direct servers give way to programs (see `ServerWatch`), decided look by look.
struct ServingPriority {
    /// In looks: how long they do not give way after one has kept a program waiting. Each time it is twice as long,
    /// unless they have given way without that for many times as long as the last time.
    static let shortestCalm = 50
    static let longestCalm = 6000
    static let steadiness = 10

    private(set) var isYielding = true
    private var calm = 0
    /// The look at which that began.
    private var began = 0

    /// - Parameter isStarved: whether a program has waited for a server that had no turn.
    /// - Returns: whether it is decided otherwise now.
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
