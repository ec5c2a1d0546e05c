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
        let folder = ContainerFolder(device: "/s", account: "local", container: container)
        #expect(folder.path == "/s/local/default")
        let all = [folder.index, folder.lock, folder.controlSocket, folder.log]
        #expect(all.allSatisfy { $0.hasPrefix(folder.path + "/") })
        #expect(Set(all).count == all.count)
    }

    @Test func pathsBecomeAbsolute() throws {
        #expect(try AbsolutePath.of("/a/b//") == "/a/b")
        #expect(try AbsolutePath.of("/") == "/")
        #expect(try AbsolutePath.of("x").hasPrefix("/"))
        #expect(throws: UbiquityError.self) { try AbsolutePath.of("") }
    }
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

    @Test func hasMilliseconds() {
        #expect(CivilTime.text(Timestamp(seconds: 0, nanoseconds: 7_900_000)) == "1970-01-01T00:00:00.007Z")
    }
}
