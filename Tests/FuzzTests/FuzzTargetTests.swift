import Testing
import UbiquityFuzzing

/// Runs every target for a short time, with the same input each time. `scripts/fuzz` runs longer.
@Suite struct FuzzTargetTests {
    @Test(.timeLimit(.minutes(2)), arguments: FuzzTarget.all.map(\.name))
    func targetSurvivesRandomInput(name: String) throws {
        let target = try #require(FuzzTarget.named(name))
        try target.run(seed: 47, from: 0, executions: target.testExecutions)
    }

    @Test func executionsAreReproducible() {
        var first = FuzzRandom(seed: 3, execution: 5), second = FuzzRandom(seed: 3, execution: 5)
        var other = FuzzRandom(seed: 3, execution: 6)
        let drawn = (0..<8).map { _ in first.next() }
        #expect(drawn == (0..<8).map { _ in second.next() } && drawn != (0..<8).map { _ in other.next() })
    }

    @Test func namesAreUnique() {
        #expect(Set(FuzzTarget.all.map(\.name)).count == FuzzTarget.all.count)
    }
}
