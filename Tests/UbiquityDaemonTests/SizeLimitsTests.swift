import Testing
import UbiquityCore
@testable import UbiquityDaemon

/// Limits on the command line of `mount` that no disk can meet.
@Suite struct SizeLimitsTests {
    private static let disk: Int64 = 100 << 30

    private func refusal(cacheLimit: Int64? = nil, diskFloor: Int64? = nil) -> UbiquityError? {
        do throws(UbiquityError) {
            try SizeLimits(diskSize: Self.disk).require(cacheLimit: cacheLimit, diskFloor: diskFloor)
            return nil
        } catch { return error }
    }

    @Test(arguments: [Int64(-1), 0, 1000, SizeLimitsTests.disk + 1, .max])
    func impossibleCacheLimitNamesTheRange(_ limit: Int64) throws {
        let error = try #require(refusal(cacheLimit: limit))
        #expect(error.code == .invalid && error.message.contains("--cache-limit"))
        #expect(error.remedy.contains("at least 1.0 MiB and at most 100 GiB"), "\(error)")
    }

    @Test(arguments: [Int64(-1), SizeLimitsTests.disk, .max]) func impossibleFloorNamesTheRange(_ floor: Int64) throws {
        let error = try #require(refusal(diskFloor: floor))
        #expect(error.code == .invalid && error.message.contains("--disk-floor"))
        #expect(error.remedy.contains("0 or more and less than 100 GiB"), "\(error)")
    }

    @Test func possibleLimitsPass() {
        #expect(refusal() == nil)
        #expect(refusal(cacheLimit: 1 << 20, diskFloor: 0) == nil)
        #expect(refusal(cacheLimit: Self.disk, diskFloor: Self.disk - 1) == nil)
    }

    /// The mount creates the folder.
    @Test func folderThatDoesNotExistYetIsOnADisk() throws {
        #expect(try SizeLimits(stateFolder: "/no/such/folder").diskSize > 0)
    }
}
