import Foundation
import Testing

/// Data of earlier programs, upgraded in place. AW-05, AW-06.
@Suite struct FormatTests {
    private static let fixtures = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures")

    /// A device's state (index format 9) and the folder of its embedded cloud (format 11), made by version 0.1.0 of
    /// November 2026: documents with an earlier version, attributes and links, a package, an evicted file, a deleted
    /// one, and a document that was not uploaded yet.
    @Test func recordedDeviceAndCloudAreUpgradedWithTheirData() async throws {
        try await World.run { world in
            let archive = Self.fixtures.path + "/cloud-11-index-9.tgz"
            try await world.shell(
                """
                mkdir '\(world.folder)/recorded'; cd '\(world.folder)/recorded'; tar xzf '\(archive)'
                rm -rf '\(world.cloudData)'; mkdir -p "$(dirname '\(world.cloudData)')"; mv cloud '\(world.cloudData)'
                """)
            let a = try world.device("laptop")
            try await world.shell("rm -rf '\(a.state)'; mv '\(world.folder)/recorded/state' '\(a.state)'")
            try await a.mount()
            try await a.waitUntilIdle()
            let look = """
                cat Documents/letter Documents/pending Documents/Talk.key/slide data/hard; readlink link
                stat -c %a Documents/letter; getfattr --only-values -n user.note Documents/letter; echo
                stat -c '%s %Y' data/big; tr -d x < data/big | wc -c; test ! -e gone
                """
            let found = try await a.shell(look)
            #expect(found == "two\npending\nslide\ntwo\nDocuments/letter\n640\nkept\n40000 978307200\n0")
            let versions = try await a.ubiquity("versions", "Documents/letter").out
            #expect(versions.contains("current") && versions.contains("history"), "\(versions)")
            #expect(try await world.ubiquity("trash", "restore", a.mountPoint + "/gone").status == 0)
            try await a.waitUntil("test \"$(cat gone)\" = gone")
            // A new device gets all of it.
            let b = try await world.mounted("b")
            try await world.settle(a, b)
            #expect(try await b.shell("cat Documents/letter Documents/pending gone") == "two\npending\ngone")
            let doctor = try await world.ubiquity("doctor", "--check", a.mountPoint)
            #expect(doctor.status == 0, "\(doctor)")
            try await a.unmount()
            // An older program refuses the upgraded data and names the format; a newer feature names its version.
            try await world.shell(
                """
                sqlite3 '\(a.containerState)/index.db' "INSERT OR REPLACE INTO meta VALUES
                    ('features', 'incompat=later-keys program=7.5')"
                """)
            let refused = try await a.tryMount()
            #expect(refused.status == 1 && refused.err.contains("later-keys") && refused.err.contains("7.5"), "\(refused)")
        }
    }
}
