import Testing
import UbiquityTestSupport

@Suite("Random claims")
struct RandomArbiterTests {
    /// A few seeds; `scripts/simulate --claims --seeds 100000` runs more.
    @Test("random claims, crashes and slow clients: exclusion holds, every request is answered, nothing is left over")
    func seeds() {
        for seed in 1...UInt64(100) {
            var run = RandomArbiter(seed: seed)
            if let failure = run.play() {
                Issue.record("seed \(seed): \(failure)")
                return
            }
        }
    }
}
