import Testing
import UbiquityCore
@testable import Ubiquity

/// The options of the library and those of the local socket are the same.
@Suite struct AccessOptionTests {
    @Test func readingOptionsHaveTheirNames() {
        let options: [(FileCoordinator.ReadingOptions, UbiquityCore.ReadingOptions)] = [
            (.withoutChanges, .withoutChanges), (.resolvesSymbolicLink, .resolvesSymbolicLink),
            (.immediatelyAvailableMetadataOnly, .immediatelyAvailableMetadataOnly), (.forUploading, .forUploading),
        ]
        for (option, same) in options { #expect(option.names == same.names && same.names.count == 1) }
        #expect(FileCoordinator.ReadingOptions([.forUploading, .withoutChanges]).names == ["without-changes", "for-uploading"])
    }

    @Test func everyNameIsAnOption() {
        for name in UbiquityCore.ReadingOptions.names {
            #expect(UbiquityCore.ReadingOptions(named: name)?.names == [name])
        }
        #expect(UbiquityCore.ReadingOptions(named: "for-deleting") == nil)
    }

    @Test func writingOptionsHaveTheirNames() {
        let options: [FileCoordinator.WritingOption] = [
            .forDeleting, .forMoving, .forMerging, .forReplacing, .contentIndependentMetadataOnly,
        ]
        #expect(options.map(\.name) == UbiquityCore.WritingOption.allCases.map(\.rawValue))
    }
}
