import Testing
import UbiquityControl

/// `ubiquity publish`, and the attribute that counts links. PU-01 to PU-06, XA-03.
@Suite struct PublishTests {
    @Test func linkServesOneStateUntilItIsRevoked() async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), b = try await world.mounted("b")
            try await a.shell("mkdir d; echo hello > d/f")
            let made = try await world.ubiquity("publish", "--json", "--expires", "1h", a.mountPoint + "/d/f")
            try #require(made.status == 0, "\(made)")
            let report = try ControlCodec.decode(PublishReport.self, from: made.text.utf8)
            #expect(report.link.path == "d/f" && !report.isReachable && !report.link.hasPassword)
            let folder = try await world.ubiquity("publish", b.mountPoint + "/d")
            try #require(folder.status == 0, "\(folder)")
            try await a.waitFor("published", "1", of: "d")
            try await b.waitFor("published", "1", of: "d/f")

            let get = "curl -s --unix-socket \(world.cloudData)/cloud.sock http://cloud"
            try await b.shell("echo changed > d/f")
            try await world.settle(b, a)
            #expect(try await world.shell("\(get)\(report.url)/content") == "hello")
            let zip = world.folder + "/d.zip"
            try await world.shell("\(get)\(folder.text)/content > \(zip); unzip -tq \(zip)")
            #expect(try await world.shell("unzip -p \(zip) d/f") == "hello")

            let listed = try await world.ubiquity("publish", "list", a.mountPoint)
            #expect(listed.out.split(separator: "\n").count == 2 && listed.out.contains("d/f"), "\(listed)")
            let revoked = try await world.ubiquity("publish", "revoke", "--mount", b.mountPoint, report.url)
            #expect(revoked.status == 0, "\(revoked)")
            let status = "\(get)\(report.url)/content -o /dev/null -w '%{http_code}'"
            #expect(try await world.shell(status) == "410")
            try await a.waitFor("published", "0", of: "d/f")
            let again = try await world.ubiquity("publish", "revoke", "--mount", b.mountPoint, report.link.id)
            #expect(again.status == 1 && again.err.contains("no such link"), "\(again)")
        }
    }
}
