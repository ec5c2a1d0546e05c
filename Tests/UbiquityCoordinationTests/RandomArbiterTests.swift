import Testing
import UbiquityCore
import UbiquityCoordination

@Suite("Random claims")
struct RandomArbiterTests {
    /// `UBIQUITY_SEEDS=100000 swift test --filter RandomArbiterTests` runs as many.
    @Test("random claims, crashes and slow clients: exclusion holds, everyone is answered, nothing is left")
    func seeds() throws {
        let count = RandomArbiter.wantedSeeds ?? 200
        for seed in 1...UInt64(count) {
            var run = RandomArbiter(seed: seed)
            if let failure = run.play() {
                Issue.record("seed \(seed): \(failure)")
                return
            }
        }
    }
}
