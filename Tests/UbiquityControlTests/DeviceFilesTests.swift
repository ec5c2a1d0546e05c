import Testing
import UbiquityControl
import UbiquityCore

/// CI-08, CI-09, CI-10: the identity token, computed from the files of a device.
@Suite struct DeviceFilesTests {
    private static let device = #"{"id":"00","name":"a","secret":"000102030405060708090a0b0c0d0e0f"}"#
    private static let ann = #"{"url":"http://a","account":"ann","token":"t"}"#

    private func token(
        _ account: String? = ann, device: String? = device, isOff: Bool = false, refused: [UInt8]? = nil,
        application: String = "app", container: String = "default"
    ) throws -> String? {
        try files(account, device, isOff, refused).token(application: application, container: container)
    }

    private func files(
        _ account: String?, _ device: String?, _ isOff: Bool, _ refused: [UInt8]? = nil
    ) throws -> DeviceFiles {
        try DeviceFiles { name in
            switch name {
            case DeviceFiles.accountName: account.map { Array($0.utf8) }
            case DeviceFiles.deviceName: device.map { Array($0.utf8) }
            case DeviceFiles.offName: isOff ? [] : nil
            default: refused
            }
        }
    }

    @Test("CI-09: a token differs by account, program, container and device, and names none of them")
    func tokensDiffer() throws {
        let other = Self.device.replacing("0f", with: "1f")
        let tokens = try [
            token(), token(nil), token(Self.ann.replacing("ann", with: "bob")), token(application: "other"),
            token(container: "notes"), token(device: other), token(Self.ann.replacing("//a", with: "//b")),
        ]
        #expect(Set(tokens.compactMap(\.self)).count == tokens.count)
        #expect(try token()?.count == 32 && token() == token())
    }

    @Test("CI-09: a new token of the cloud, or another address of the same cloud, keeps the identity token")
    func tokenStays() throws {
        #expect(try token(Self.ann.replacing(#""t""#, with: #""u""#)) == token())
        let known = #"{"url":"http://a","account":"ann","token":"t","cloud":"1"}"#
        #expect(try token(known) == token(known.replacing("//a", with: "//b")))
    }

    @Test("CI-10: nobody signed in and documents off are two switches; each gives no token")
    func switches() throws {
        #expect(try token(Self.ann.replacing("}", with: #","isSignedOut":true}"#)) == nil)
        #expect(try token(isOff: true) == nil)
        #expect(try token(nil, isOff: true) == nil)
    }

    @Test func refusedSignInHasNoTokenUntilTheNextOne() throws {
        let refusal = try #require(try files(Self.ann, Self.device, false).refusal)
        #expect(try token(refused: refusal) == nil)
        #expect(try token(Self.ann.replacing(#""t""#, with: #""u""#), refused: refusal) != nil)
    }

    @Test func deviceWithoutASecretHasNoToken() {
        #expect(throws: UbiquityError.self) { try token(device: nil) }
        #expect(throws: UbiquityError.self) { try token(device: #"{"id":"00","name":"a"}"#) }
    }
}
