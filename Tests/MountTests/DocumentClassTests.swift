import Foundation
import Testing
import UbiquityControl

/// `Document` of the library, among other programs and devices.
@Suite struct DocumentClassTests {
    private func devices(_ world: World) async throws -> (Device, Device) {
        let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
        try await a.shell("echo base > f.txt")
        try await world.settle(a, b)
        return (a, b)
    }

    @Test("DC-03, DC-04, DC-11, DC-12: local and remote readers, writers, moves and deletions are handled alike")
    func others() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let probe = try await LibraryProbe.start(b)
            // Opening a placeholder downloads it.
            try await probe.perform("open f.txt")
            try await probe.waitUntilHeard("text base")
            try await probe.perform("type more")
            #expect(try await b.shell("cat f.txt") == "base\nmore")
            try await world.settle(b, a)
            try await b.shell("echo by a program here >> f.txt")
            try await probe.waitUntilHeard("loaded base|more|by a program here")
            try await world.settle(b, a)
            try await a.shell("echo elsewhere >> f.txt")
            try await probe.waitUntilHeard("loaded base|more|by a program here|elsewhere")
            try await a.shell("mv f.txt g.txt")
            try await world.eventually("it follows its file") {
                try await probe.perform("show").contains("unsaved false at g.txt")
            }
            try await b.shell("mv g.txt h.txt")
            try await world.eventually("it follows its file") {
                try await probe.perform("show").contains("unsaved false at h.txt")
            }
            try await probe.perform("type last")
            try await probe.perform("close")
            #expect(try await b.shell("tail -1 h.txt") == "last")
            // A closed document takes no part in coordination.
            #expect(try await b.status().coordination?.clients.map(\.presenters) == [0])
            try await probe.perform("open h.txt")
            try await world.settle(b, a)
            try await a.shell("rm h.txt")
            try await world.eventually("it is closed when it is deleted") { probe.heard.last == "state closed" }
            try await world.settle(a, b)
            #expect(try await b.status().coordination?.clients.map(\.presenters) == [0])
        }
    }

    @Test("DC-10: both devices show a conflict in the state until it is resolved; no typed text is lost")
    func conflicts() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let probe = try await LibraryProbe.start(b)
            try await probe.perform("open f.txt")
            try await probe.perform("type unsaved")
            // The remote update makes it save first, so the result is a conflict and not a loss.
            try await a.shell("echo from a > f.txt")
            try await world.eventually("it is in conflict: \(probe.heard)") {
                probe.heard.contains { $0.hasPrefix("state inConflict") }
            }
            try await world.settle(a, b)
            let texts = try await a.shell("cat f.txt .versions/f.txt/*conflict*").split(separator: "\n")
            #expect(Set(texts) == ["from a", "base", "unsaved"])
            try await a.ubiquity("resolve", "f.txt")
            try await world.eventually("it is resolved: \(probe.heard)") { probe.heard.last == "state normal" }
            try await probe.perform("close")
        }
    }

    @Test("DC-04: typed text wins over a remote deletion, and stays in the document after an rm")
    func deletions() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let probe = try await LibraryProbe.start(b)
            try await probe.perform("open f.txt")
            try await probe.perform("delay 1000000000")
            try await probe.perform("type unsaved")
            try await a.shell("rm f.txt")
            try await b.waitUntil("test \"$(tail -1 f.txt)\" = unsaved")
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.shell("cat f.txt") == "base\nunsaved") }
            #expect(try await probe.perform("show").contains("unsaved false at f.txt"))
            #expect(!probe.heard.contains { $0.hasPrefix("error") })
            try await probe.perform("type more")
            try await b.shell("rm f.txt", within: 60)
            try await probe.waitUntilHeard("error fileNoSuchFile interaction true")
            #expect(try await probe.perform("show").contains("text base|unsaved|more"))
            try await probe.perform("create g.txt")
            try await probe.perform("close")
            #expect(try await b.shell("cat g.txt; ls") == "base\nunsaved\nmore\ng.txt")
        }
    }

    @Test("only changed parts of a package are written; it arrives whole, and follows remote changes")
    func packages() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir n.rtfd; echo text > n.rtfd/text; head -c 3000000 /dev/urandom > n.rtfd/picture")
            try await world.settle(a, b)
            let probe = try await LibraryProbe.start(a)
            try await probe.perform("open n.rtfd")
            let picture = try await a.shell("stat -c '%i %Y' n.rtfd/picture")
            try await probe.perform("type-into text new text")
            let sent = try await a.sent {
                try await probe.perform("save")
                try await a.waitUntilIdle()
            }
            #expect(sent < 100_000)
            #expect(try await a.shell("stat -c '%i %Y' n.rtfd/picture; ls -A n.rtfd") == "\(picture)\npicture\ntext")
            try await world.settle(a, b)
            #expect(try await b.shell("cat n.rtfd/text") == "new text")
            try await b.shell("echo extra > n.rtfd/extra")
            try await probe.waitUntilHeard("loaded extra|picture|text")
            try await probe.perform("close")
        }
    }

    @Test("text typed while the container is unmounted is saved after the remount")
    func mountGoes() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo base > f.txt")
            try await a.waitUntilIdle()
            let probe = try await LibraryProbe.start(a)
            try await probe.perform("open f.txt")
            try await a.kill()
            try await probe.waitUntilHeard("state editingDisabled")
            try await probe.perform("type meanwhile")
            try await probe.perform("save", fails: true)
            try await probe.waitUntilHeard("error ubiquitousFileUbiquityServerNotAvailable interaction true", times: 2)
            try await a.mount()
            try await a.waitUntil("test \"$(tail -1 f.txt)\" = meanwhile")
            try await probe.perform("close")
        }
    }

    @Test("DC-02: an orderly end of the mount keeps unclosed writes of programs")
    func orderlyEnd() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let writer = try a.start("exec 3> f.txt; echo 'not closed' >&3; echo written; exec sleep 1000")
            try await world.eventually("it is written") { writer.outputSoFar == "written\n" }
            let process = try #require(a.processID)
            try await world.shell("kill -TERM \(process)")
            try await world.eventually("the daemon has ended") { a.processID == nil }
            try await a.mount()
            #expect(try await a.shell("cat f.txt") == "not closed")
            try await world.settle(a, b)
            #expect(try await b.shell("cat f.txt") == "not closed")
        }
    }

    @Test("LK-09: waiting opens block nobody else")
    func waiting() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo 1 > f; echo 2 > g; mkfifo ../go")
            let holder = try a.start("'\(World.program)' coordinate write f -- sh -c 'echo in; read -r line < ../go'")
            try await world.eventually("it is claimed") { holder.outputSoFar == "in\n" }
            let waiting = try a.start("for i in $(seq 64); do cat f & done; wait")
            try await world.eventually("all wait") {
                try await a.status().coordination?.claims.filter { $0.state == "waiting" }.count == 64
            }
            try await a.shell("cat g; ls; echo new > h; mv h i; rm i; stat f", within: 30)
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await waiting.finish(within: 60).out.split(separator: "\n").count == 64)
        }
    }

    /// `UBIQUITY_UPDATES=10000 swift test --filter wholeContents` makes that many updates.
    @Test("LK-19: a reader sees the whole old or the whole new content while another device rewrites it")
    func wholeContents() async throws {
        let updates = ProcessInfo.processInfo.environment["UBIQUITY_UPDATES"].flatMap(Int.init) ?? 200
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            // Several files, since the uploader delays a file that changes again and again.
            try await a.shell("for n in $(seq 0 39); do echo base > f$n; done")
            try await world.settle(a, b)
            let reader = try world.start(
                [
                    "/usr/bin/python3", "-c",
                    """
                    import hashlib, os, random
                    os.chdir('\(b.mountPoint)')
                    seen = set()
                    while not os.path.exists('stop'):
                        data = open('f%d' % random.randrange(40), 'rb').read()
                        body, line, digest = data.rpartition(b'=')
                        whole = data == b'base\\n' or hashlib.sha1(body).hexdigest().encode() == digest
                        assert whole, (len(data), data[-50:])
                        seen.add(digest)
                    print(len(seen))
                    """,
                ])
            try await a.python(
                """
                import hashlib, random
                for number in range(\(updates)):
                    body = random.randbytes(random.randrange(200000))
                    with open('f%d' % random.randrange(40), 'wb') as file:
                        file.write(body + b'=' + hashlib.sha1(body).hexdigest().encode())
                """)
            try await world.settle(a, b)
            try await a.shell("touch stop")
            let outcome = try await reader.finish(within: 60)
            #expect(outcome.status == 0, "\(outcome)")
            let seen = try #require(Int(outcome.text), "\(outcome)")
            #expect(seen > 20, "contents seen")
        }
    }
}
