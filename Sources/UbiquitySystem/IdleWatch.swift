/// Detects when this process becomes idle, from the CPU time it uses.
package struct IdleWatch {
    /// CPU time between two checks below which the process counts as idle; about a hundredth of the usual interval.
    private static let rest: Duration = .milliseconds(50)

    private var last: Duration?
    private var isIdle = false

    package init() {}

    /// Returns whether the process is idle now and was not at the check before.
    ///
    /// - Parameter computed: The CPU time of all threads so far (`ProcessHost.computedTime`).
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
