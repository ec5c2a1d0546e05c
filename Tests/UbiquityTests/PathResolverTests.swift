import Testing
import Ubiquity
import UbiquityCore

@Suite struct PathResolverTests {
    /// A resolver over symlinks of an imaginary file system.
    private func resolver(_ links: [String: String], alive: Bool = true) -> PathResolver {
        PathResolver(
            table: MountTable(parsing: MountTableTests.text.utf8),
            readLink: { links[String(decoding: $0, as: UTF8.self)].map { Array($0.utf8) } },
            isAlive: { _ in alive })
    }

    private func relative(_ path: String, _ links: [String: String] = [:], alive: Bool = true) throws -> String? {
        try resolver(links, alive: alive).locate(Array(path.utf8)).map {
            String(decoding: $0.mountPoint + Array(":".utf8) + $0.relativePath, as: UTF8.self)
        }
    }

    @Test func findsTheItemInItsMount() throws {
        #expect(try relative("/home/a/Cloud/Documents/x.txt") == "/home/a/Cloud:Documents/x.txt")
        #expect(try relative("/home/a/Cloud") == "/home/a/Cloud:")
        #expect(try relative("/home/a/Cloud//./Documents/../x/") == "/home/a/Cloud:x")
        #expect(try relative("/home/a/other") == nil)
        #expect(try relative("/home/a/Cloud/inner/x") == nil)
    }

    @Test func partialBindMountCountsFromTheContainersRoot() throws {
        #expect(try relative("/srv/docs/x.txt") == "/srv/docs:Documents/x.txt")
        #expect(try relative("/srv/docs") == "/srv/docs:Documents")
    }

    @Test func linksOnTheWayAreFollowed() throws {
        let links = ["/home/a/docs": "Cloud/Documents", "/home/a/Cloud/Documents/now": "../2026", "/c": "/home/a/Cloud"]
        #expect(try relative("/home/a/docs/x", links) == "/home/a/Cloud:Documents/x")
        #expect(try relative("/home/a/docs", links) == "/home/a/Cloud:Documents")
        #expect(try relative("/c/Documents/now/x", links) == "/home/a/Cloud:2026/x")
        #expect(try relative("/c/Documents/../x", links) == "/home/a/Cloud:x")
    }

    @Test func linkInAContainerIsAnItem() throws {
        let links = ["/home/a/Cloud/link": "/etc/passwd", "/home/a/Cloud/folder": "Documents"]
        #expect(try relative("/home/a/Cloud/link", links) == "/home/a/Cloud:link")
        #expect(try relative("/home/a/Cloud/link/", links) == nil)
        #expect(try relative("/home/a/Cloud/folder/", links) == "/home/a/Cloud:Documents")
    }

    @Test func deadMountIsNotAsked() throws {
        let asked = ["/home/a/Cloud/folder": "elsewhere", "/home/a/docs": "Cloud/folder"]
        #expect(try relative("/home/a/Cloud/folder/x", asked, alive: false) == "/home/a/Cloud:folder/x")
        #expect(try relative("/home/a/docs/x", asked, alive: false) == "/home/a/Cloud:folder/x")
    }

    @Test func symlinkCycleIsRefused() {
        #expect(throws: UbiquityError.self) { try relative("/home/a/x", ["/home/a/x": "y", "/home/a/y": "x"]) }
    }
}
