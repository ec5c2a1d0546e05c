import Testing
import UbiquityCore
import UbiquitySystem

@Suite struct ServingPolicyTests {
    @Test(arguments: ["", "tuned"]) func defaultUsesAllMeasures(text: String) throws {
        #expect(try ServingPolicy(text).measures == Set(ServingPolicy.Measure.allCases))
    }

    @Test func plainUsesNone() throws {
        #expect(try ServingPolicy("plain").measures.isEmpty)
    }

    @Test func namedMeasuresAreTheOnlyOnes() throws {
        #expect(try ServingPolicy("spin,bind").measures == [.spin, .bind])
    }

    @Test func minusTurnsMeasuresOff() throws {
        let policy = try ServingPolicy("-poll,-idle")
        #expect(!policy.uses(.poll) && !policy.uses(.idle))
        #expect(policy.measures.count == ServingPolicy.Measure.allCases.count - 2)
    }

    @Test(arguments: ["fast", "spin,-bind", "spin;bind", "-", " plain"]) func unknownTextIsRefused(text: String) {
        let error = #expect(throws: UbiquityError.self) { _ = try ServingPolicy(text) }
        #expect(error?.description.contains("UBIQUITY_SERVING") == true)
        #expect(error?.description.contains("turns") == true, "the message lists the names")
    }
}
