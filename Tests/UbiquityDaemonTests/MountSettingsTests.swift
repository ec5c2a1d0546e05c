import Testing
import UbiquityCore
@testable import UbiquityDaemon

@Suite struct MountSettingsTests {
    private func settings(container: String = "default", options: [String] = []) throws -> MountSettings {
        try MountSettings(
            deviceFolder: "/s t", container: container, deviceName: "my laptop", policy: .eager, cacheLimit: 1 << 30,
            diskFloor: nil, allowsPassthrough: false, enablesRings: true, trustsPrivileges: true, showsConflicts: true,
            options: options, mountPoint: "/m")
    }

    @Test(arguments: ["a/b", "", ".hidden", "-x", "ä", String(repeating: "x", count: 65), "a b"])
    func otherNamesAreNoContainers(_ name: String) {
        #expect(throws: UbiquityError.self) { try settings(container: name) }
    }

    @Test func serverGetsEverySetting() throws {
        let arguments = try settings(options: ["ro", "allow_other"]).serverArguments
        #expect(
            arguments == [
                "mount", "--foreground", "--report", "--state", "/s t", "--container", "default", "--device",
                "my laptop",
                "--policy", "eager", "--cache-limit", "1073741824", "--no-passthrough", "--enable-io-uring",
                "--trust-suid", "--visible-conflicts", "-o", "ro", "-o", "allow_other", "--", "/m",
            ])
    }

    @Test(arguments: [(8 << 30, 429_496_729), (100 << 30, 1 << 30), (0, 0)])
    func defaultFloorIsATwentiethOfASmallDisk(_ disk: Int64, _ floor: Int64) {
        #expect(MountSettings.defaultDiskFloor(diskBytes: disk) == floor)
    }
}
