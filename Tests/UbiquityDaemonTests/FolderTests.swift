import Foundation
import Testing
@testable import UbiquityDaemon
import UbiquityCore

@Suite struct FolderTests {
    @Test(arguments: [
        ("local", "local"), ("a@b.example", "a@b.example"), ("..", "%2e."), (".x", "%2ex"), ("a/b", "a%2fb"),
        ("Zoë", "Zo%c3%ab"), ("50%", "50%25"),
    ])
    func accountsBecomeFoldersOfTheirOwn(_ account: String, _ folder: String) {
        #expect(ContainerFolder.fileName(account: account) == folder)
    }

    @Test func everythingOfAContainerIsInItsFolder() throws {
        let container = try #require(ContainerID("default"))
        let folder = ContainerFolder(account: try AccountFolder(device: "/s", signIn: nil), container: container)
        #expect(folder.path == "/s/local/default")
        let all = [folder.index, folder.lock, folder.controlSocket, folder.log]
        #expect(all.allSatisfy { $0.hasPrefix(folder.path + "/") })
        #expect(Set(all).count == all.count)
    }

    @Test func accountsOfOneNameAtTwoCloudsHaveTwoFolders() throws {
        try withTemporaryFolder { (device: String) throws in
            func folder(_ url: String, _ cloud: String?) throws -> String {
                String(try claim(url, cloud, device).path.dropFirst(device.count + 1))
            }
            #expect(try folder("http://a:1", "1") == "ann")
            #expect(try folder("http://b:1", "2") == "ann+2")
            #expect(try folder("http://c:1", nil) == "ann+3")
            #expect(try folder("http://a:1/", "1") == "ann")
            // The second cloud moved, finally to the place of the first one.
            #expect(try folder("http://d:1", "2") == "ann+2")
            #expect(try folder("http://a:1", "2") == "ann+2")
            // The third was set up again.
            #expect(try folder("http://c:1", "4") == "ann+3")
            #expect(try folder("http://e:1", "4") == "ann+3")
        }
    }

    /// The folder of ann's account at a cloud, as a mount chooses it.
    private func claim(_ url: String, _ cloud: String?, _ device: String) throws -> AccountFolder {
        let signIn = SignIn(url: url, account: "ann", token: "t", certificates: nil, cloud: cloud)
        let folder = try AccountFolder(device: device, signIn: signIn)
        try folder.claim()
        return folder
    }

    /// The embedded cloud's account never shares its folder, whatever the name of another account.
    @Test func accountNamedLocalHasItsOwnFolder() throws {
        try withTemporaryFolder { (device: String) throws in
            func folder(_ url: String) throws -> AccountFolder {
                let signIn = SignIn(url: url, account: "local", token: "t", certificates: nil, cloud: nil)
                let folder = try AccountFolder(device: device, signIn: signIn)
                try folder.claim()
                return folder
            }
            let embedded = try AccountFolder(device: device, signIn: nil)
            #expect(try folder("http://a").path == embedded.path + "+2")
            #expect(try folder("http://b").number == 3 && folder("http://a").number == 2)
            #expect(try AccountFolder(device: device, signIn: nil).path == embedded.path)
        }
    }

    /// A folder that the user removed leaves a gap.
    @Test func gapInFolderNumbersHidesNothing() throws {
        try withTemporaryFolder { (device: String) throws in
            func folder(_ url: String) throws -> AccountFolder { try claim(url, nil, device) }
            let folders = try ["http://a", "http://b", "http://c"].map(folder)
            try FileManager.default.removeItem(atPath: folders[1].path)
            #expect(try folder("http://c").number == 3)
            #expect(try folder("http://d").number == 2)
        }
    }

    /// The old account's folder stays after the device signs in elsewhere.
    @Test func signInElsewhereMarksTheOldFolder() throws {
        try withTemporaryFolder { (device: String) throws in
            try FileManager.default.createDirectory(
                atPath: device + "/ann/default", withIntermediateDirectories: true)
            let first = SignIn(url: "http://a", account: "ann", token: "t", certificates: nil)
            let second = SignIn(url: "http://b", account: "ann", token: "t", certificates: nil)
            try first.save(deviceFolder: device)
            _ = try SignIn.remove(deviceFolder: device)
            try second.save(deviceFolder: device)
            #expect(try AccountFolder(device: device, signIn: second).number == 2)
            #expect(try AccountFolder(device: device, signIn: first).number == 1)
        }
    }

    /// State from before the marks belongs to the account of the next mount.
    @Test func unmarkedFolderBelongsToTheFirstAccount() throws {
        try withTemporaryFolder { (device: String) throws in
            try FileManager.default.createDirectory(
                atPath: device + "/ann/default", withIntermediateDirectories: true)
            let first = SignIn(url: "http://a", account: "ann", token: "t", certificates: nil)
            let second = SignIn(url: "http://b", account: "ann", token: "t", certificates: nil)
            for _ in 0..<2 {
                for (signIn, number) in [(first, 1), (second, 2)] {
                    let folder = try AccountFolder(device: device, signIn: signIn)
                    try folder.claim()
                    #expect(folder.number == number)
                }
            }
        }
    }

    @Test func pathsBecomeAbsolute() throws {
        #expect(try AbsolutePath.of("/a/b//") == "/a/b")
        #expect(try AbsolutePath.of("/") == "/")
        #expect(try AbsolutePath.of("x").hasPrefix("/"))
        #expect(throws: UbiquityError.self) { try AbsolutePath.of("") }
    }
}

func withTemporaryFolder(_ body: (String) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ubiquity-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try body(folder.path)
}

@Suite struct CivilTimeTests {
    @Test(arguments: [
        (0, "1970-01-01T00:00:00.000Z"), (951_782_400, "2000-02-29T00:00:00.000Z"),
        (1_795_169_472, "2026-11-20T10:11:12.000Z"), (-1, "1969-12-31T23:59:59.000Z"),
        (4_102_444_799, "2099-12-31T23:59:59.000Z"),
    ] as [(Int64, String)])
    func isTheGregorianCalendarInUTC(_ seconds: Int64, _ text: String) {
        #expect(CivilTime.text(Timestamp(seconds: seconds, nanoseconds: 0)) == text)
    }

    @Test func civilTimeHasMilliseconds() {
        #expect(CivilTime.text(Timestamp(seconds: 0, nanoseconds: 7_900_000)) == "1970-01-01T00:00:00.007Z")
    }
}
