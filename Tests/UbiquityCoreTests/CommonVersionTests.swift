import Testing
import UbiquityCore

@Suite struct CommonVersionTests {
    private static func id(_ number: UInt8) -> VersionID { VersionID(bytes: [UInt8](repeating: number, count: 16))! }

    private static func version(_ number: UInt8, from base: UInt8?, isAvailable: Bool = true) throws -> RemoteVersion {
        let content = RemoteContent(
            version: id(number), size: 1, isAvailable: isAvailable, device: DeviceID(bytes: [UInt8](repeating: 1, count: 16))!,
            deviceName: "a", manifest: nil)
        return RemoteVersion(
            content: content, kind: .history, modifiedAt: .zero, savedAt: .zero, savedName: try ItemName("f"),
            baseVersion: base.map(id))
    }

    @Test func commonVersionIsTheNearestSharedAncestor() throws {
        // 1 is everywhere; 2 and 3 are saved on one device while the other makes 4 from 1.
        let versions = try [Self.version(1, from: nil), Self.version(2, from: 1), Self.version(3, from: 2)]
        let late = try Self.version(4, from: 1)
        #expect(CommonVersion(of: versions[2], late, among: versions + [late]) == .version(versions[0]))
        #expect(CommonVersion(of: late, versions[2], among: versions + [late]) == .version(versions[0]))
        // The common version of a version and its ancestor is the ancestor.
        #expect(CommonVersion(of: versions[1], versions[2], among: versions) == .version(versions[1]))
    }

    @Test func unknownAncestorIsNotKept() throws {
        let (one, other) = (try Self.version(3, from: 2), try Self.version(4, from: 1))
        #expect(CommonVersion(of: one, other, among: []) == .notKept)
        let coming = try Self.version(1, from: nil, isAvailable: false)
        #expect(CommonVersion(of: try Self.version(2, from: 1), other, among: [coming]) == .awaited)
        #expect(CommonVersion(of: try Self.version(2, from: 1), other, among: []) == .notKept)
    }

    @Test func independentVersionsHaveNoCommonVersion() throws {
        let (one, other) = (try Self.version(1, from: nil), try Self.version(2, from: nil))
        #expect(CommonVersion(of: one, other, among: [one, other]) == .none)
    }

    @Test func ancestorCycleEnds() throws {
        let (one, other) = (try Self.version(1, from: 2), try Self.version(2, from: 1))
        let third = try Self.version(3, from: nil)
        #expect(CommonVersion(of: one, third, among: [one, other, third]) == .notKept)
    }
}
