import DatabaseSimulation
import Testing
import UbiquityDatabase

@Suite struct DatabaseSimulationTests {
    @Test(arguments: 1...40)
    func tablesAreEqualAfterHealing(_ seed: Int) throws {
        var world = DatabaseWorld(seed: UInt64(seed))
        try world.run()
    }

    @Test(arguments: DatabaseFault.allCases)
    func plantedFaultIsFound(_ fault: DatabaseFault) {
        let seed = (1...1000).first { seed in
            var world = DatabaseWorld(seed: UInt64(seed), fault: fault)
            do { try world.run() } catch { return true }
            return false
        }
        #expect(seed != nil)
    }
}
