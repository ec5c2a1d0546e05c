@testable import UbiquitySystem

enum FaultPointsProbe {
    /// The visit of `name` at which the plan kills; nil if it never does.
    static func visits(toDie text: String, name: String) -> Int? {
        var plans = FaultPoints.plans(in: text)
        return (1...10).first { _ in FaultPoints.take(name, &plans) == .kill }
    }
}
