import Testing
@testable import UbiquityCore

/// Features of formats stop only the access that they break. AW-05, AW-06.
@Suite struct FormatFeatureTests {
    @Test func unknownFeaturesStopTheAccessThatTheyBreak() {
        var features = FormatFeatures()
        features.compatible = ["names"]
        #expect(features.access(knowing: []) == .full)
        features.readOnlyCompatible = ["sums", "marks"]
        #expect(features.access(knowing: []) == .readOnly(["marks", "sums"]))
        #expect(features.access(knowing: ["sums", "marks"]) == .full)
        features.incompatible = ["keys"]
        #expect(features.access(knowing: ["sums", "marks"]) == .none(["keys"]))
        features.program = "2.1"
        let refusal = features.refusal(of: "the index", ["keys"])
        #expect(refusal.code == .newerFormat && refusal.remedy.contains("2.1") == true)
    }

    @Test func textKeepsEverything() {
        var features = FormatFeatures()
        features.compatible = ["a", "b"]
        features.readOnlyCompatible = ["c"]
        features.incompatible = ["d"]
        features.program = "1.2"
        #expect(features.text == "compat=a,b ro-compat=c incompat=d program=1.2")
        #expect(FormatFeatures(text: features.text) == features)
        #expect(FormatFeatures(text: "") == FormatFeatures() && FormatFeatures().text == "")
        // A newer program may add a list.
        #expect(FormatFeatures(text: "later=x compat=a").compatible == ["a"])
    }

    @Test func versionsAreComparedByTheirNumbers() {
        #expect(FormatFeatures.newer("0.9.1", "0.10") == "0.10")
        #expect(FormatFeatures.newer("1.0", "0.10") == "1.0" && FormatFeatures.newer("", "0.1.0") == "0.1.0")
    }
}
