import Testing
import UbiquityTestSupport

/// Random lives of key-values. `scripts/simulate --key-values` runs more. KV-06 … KV-15.
@Suite struct KeyValueSimulationTests {
    @Test("KV-07: after random sets, losses, kills and switches of the account all devices agree")
    func devicesAgree() {
        for seed in UInt64(1)...300 {
            var run = RandomKeyValues(seed: seed)
            let failure = run.play()
            #expect(failure == nil, "seed \(seed)")
        }
    }

    @Test(arguments: KeyValueFault.allCases) func plantedFaultsAreFound(_ fault: KeyValueFault) {
        let found = (UInt64(1)...1000).first { seed in
            var run = RandomKeyValues(seed: seed, fault: fault)
            return run.play() != nil
        }
        #expect(found != nil)
    }
}
