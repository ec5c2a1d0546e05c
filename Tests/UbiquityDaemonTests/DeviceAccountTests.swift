import Foundation
import Testing
@testable import UbiquityDaemon
import UbiquityControl
import UbiquityCore

/// CI-10, CI-13, CI-14: which account a device shows.
@Suite struct DeviceAccountTests {
    private let ann = SignIn(url: "http://a:1", account: "ann", token: "t", certificates: nil)

    @Test func deviceWithoutFilesUsesTheEmbeddedCloud() throws {
        try withTemporaryFolder { (device: String) throws in
            #expect(try DeviceAccount.load(deviceFolder: device) == .embedded)
            #expect(try DeviceAccount.embedded.folder(ofDevice: device).path == device + "/local")
        }
    }

    @Test("CI-13, CI-14: a sign-out erases the token, keeps the account's folder, and names the account")
    func signOut() throws {
        try withTemporaryFolder { (device: String) throws in
            try ann.save(deviceFolder: device)
            #expect(try DeviceAccount.load(deviceFolder: device).folder(ofDevice: device).path == device + "/ann")
            #expect(try SignIn.end(deviceFolder: device)?.account == "ann")
            #expect(try SignIn.end(deviceFolder: device) == nil)
            let account = try DeviceAccount.load(deviceFolder: device)
            #expect(account.vacancy == "signed out" && account.name == "ann" && account.signIn == nil)
            #expect(try account.folder(ofDevice: device).path == device + "/+signed-out")
            #expect(try account.absence(deviceFolder: device) == "signed out; sign in as ann to continue")
            #expect(throws: UbiquityError.self) { try SignIn.load(deviceFolder: device) }
            let stored = try String(contentsOfFile: device + "/account.json", encoding: .utf8)
            #expect(!stored.contains("\"t\""))
            try ann.save(deviceFolder: device)
            #expect(try DeviceAccount.load(deviceFolder: device) == .signedIn(ann))
        }
    }

    @Test("CI-10: documents off is a switch of its own")
    func documentsOff() throws {
        try withTemporaryFolder { (device: String) throws in
            #expect(try DeviceAccount.setDocuments(on: false, deviceFolder: device))
            #expect(try !DeviceAccount.setDocuments(on: false, deviceFolder: device))
            #expect(try DeviceAccount.load(deviceFolder: device) == .off(nil))
            try ann.save(deviceFolder: device)
            let account = try DeviceAccount.load(deviceFolder: device)
            #expect(account == .off(ann) && account.vacancy == "documents off")
            #expect(try account.folder(ofDevice: device).path == device + "/+off")
            #expect(
                try account.absence(deviceFolder: device)
                    == "documents are off; run 'ubiquity documents on' to continue")
            #expect(try SignIn.end(deviceFolder: device) != nil)
            #expect(try DeviceAccount.load(deviceFolder: device).vacancy == "signed out")
            #expect(try DeviceAccount.setDocuments(on: true, deviceFolder: device))
            #expect(try SignIn.remove(deviceFolder: device))
            #expect(try DeviceAccount.load(deviceFolder: device) == .embedded)
        }
    }

    @Test func emptyContainersAreNoAccounts() throws {
        try withTemporaryFolder { (device: String) throws in
            for folder in ["/+off/default", "/ann/default"] {
                try FileManager.default.createDirectory(atPath: device + folder, withIntermediateDirectories: true)
                try Data().write(to: URL(filePath: device + folder + "/index.db"))
            }
            #expect(try AccountFolder.all(ofDevice: device).map(\.account) == ["ann"])
        }
    }

    @Test func deviceGetsItsSecretOnce() throws {
        try withTemporaryFolder { (device: String) throws in
            let first = try DeviceIdentity.load(deviceFolder: device, name: "a")
            let secret = try DeviceFiles.read(device).secret
            #expect(secret.count == 16 && Set(secret).count > 1)
            #expect(try DeviceIdentity.load(deviceFolder: device, name: "b").id == first.id)
            #expect(try DeviceFiles.read(device).secret == secret)
        }
    }
}
