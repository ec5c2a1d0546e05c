import Testing
import Ubiquity
import UbiquityCore
import UbiquityTestSupport

@Suite struct MountFinderTests {
    @Test func missingPathOutsideOfMountsIsNotFound() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/missing"
        let error = #expect(throws: UbiquityError.self) { try MountFinder.locate(path) }
        #expect(error?.code == .notFound && error?.place == path, "\(error as Any)")
    }

    @Test func folderOutsideOfMountsIsUnreachable() throws {
        let folder = try TemporaryFolder()
        #expect(throws: MountUnreachable(folder.path, "not in a mounted container")) {
            try MountFinder.locate(folder.path)
        }
    }
}
