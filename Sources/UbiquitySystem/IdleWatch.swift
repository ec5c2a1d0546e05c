/// Tells when this process has come to rest, by the time that it computes.
package struct IdleWatch {
    /// Between two looks; of some seconds it is about a hundredth.
    private static let rest: Duration = .milliseconds(50)

    private var last: Duration?
    private var isIdle = false

    package init() {}

    /// Whether it rests, and did not at the look before.
    /// - Parameter computed: the time that all its threads have computed so far (`ProcessHost.computedTime`).
    package mutating func beginsToRest(_ computed: Duration) -> Bool {
        defer { last = computed }
        guard let last, computed - last < Self.rest else {
            isIdle = false
            return false
        }
        defer { isIdle = true }
        return !isIdle
    }
}
