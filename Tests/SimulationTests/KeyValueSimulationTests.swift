import Testing
import UbiquityTestSupport

/// Random lives of key-values. `scripts/simulate --key-values` runs more. KV-06 … KV-15.
@Suite struct KeyValueSimulationTests {
    @Test("KV-07: after random sets, losses, kills and switches of the account all devices agree")
    func devicesAgree() {
        for seed in UInt64(1)...300 {
            var run = RandomKeyValues(seed: seed)
            let failure = run.play()
            withKnownIssue("an open fault: a later set loses, or a device keeps an older value") {
                #expect(failure == nil, "seed \(seed)")
            } when: {
                Self.open.contains(seed)
            }
        }
    }

    /// Seeds that fail at present. Remove each when its fault is mended; the test demands it.
    private static let open: Set<UInt64> = [28, 111, 278]

    @Test(arguments: KeyValueFault.allCases) func plantedFaultsAreFound(_ fault: KeyValueFault) {
        let found = (UInt64(1)...1000).first { seed in
            var run = RandomKeyValues(seed: seed, fault: fault)
            return run.play() != nil
        }
        #expect(found != nil)
    }
}
