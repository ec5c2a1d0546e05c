import Testing
import UbiquityControl

/// Notifications of presenters, through the library.
@Suite struct PresenterTests {
    private func devices(_ world: World) async throws -> (Device, Device) {
        let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
        try await a.shell("mkdir -p folder/deep; echo base > f; echo base > folder/g")
        try await world.settle(a, b)
        return (a, b)
    }

    @Test("PN-04, PN-06, PN-07, PN-13, PN-19: changes, moves, arrivals and deletions, of items and in folders")
    func changes() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let probe = try await LibraryProbe.start(a)
            for path in ["f", "folder"] { try await probe.perform("watch \(path)") }
            // Metadata is a change like content: the disk shows which one.
            try await b.shell("chmod 600 f")
            try await probe.waitUntilHeard("changed")
            try await world.settle(b, a)
            let before = probe.count("changed")
            try await b.shell("echo more >> f")
            try await probe.waitUntilHeard("changed", times: before + 1)
            // A new file is announced like a changed one.
            try await b.shell("echo new > folder/deep/new")
            try await probe.waitUntilHeard("subitem changed new")
            try await b.shell("mv folder/deep/new folder/renamed")
            try await probe.waitUntilHeard("subitem moved new renamed")
            try await a.shell("mv folder/renamed folder/local")
            try await probe.waitUntilHeard("subitem moved renamed local")
            // A presenter that finds its file gone is still notified; and for its user the file is gone at once.
            let python = "f = open('folder/g'); os.unlink('folder/g'); assert not os.path.exists('folder/g'); assert f.read()"
            try await a.python(python)
            try await probe.waitUntilHeard("accommodate deletion of g")
            try await probe.waitUntilHeard("subitem changed g")
            #expect(try await a.attempt("cat folder/g").status != 0)
            let told = probe.heard.count
            try await b.shell("rm f")
            try await a.waitUntil("! test -e f")
            try await probe.waitUntilHeard("accommodate deletion")
            // The presenter is asked once, and not about another device's deletion.
            #expect(probe.count("accommodate deletion") == 1)
            #expect(try #require(probe.heard.firstIndex(of: "accommodate deletion")) >= told, "\(probe.heard)")
        }
    }

    @Test("PN-02, PN-05: a presenter in a folder gets the new place after a local or remote folder move")
    func folderMoves() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/ef")
            try await world.settle(a, b)
            let probe = try await LibraryProbe.start(a)
            for path in ["d/e/f", "d/ef"] { try await probe.perform("watch \(path)") }
            try await a.shell("mv d/e d/g")
            try await probe.waitUntilHeard("moved to f")
            #expect(probe.count("moved to ef") == 0, "\(probe.heard)")
            try await b.waitUntil("test -e d/g/f")
            try await b.shell("mv d h")
            try await probe.waitUntilHeard("moved to f", times: 2)
            try await probe.waitUntilHeard("moved to ef")
        }
    }

    @Test("PN-09, PN-10, PN-11, PN-14: a conflict is announced at its begin and its end, and not as a change")
    func conflicts() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let (near, far) = (try await LibraryProbe.start(a), try await LibraryProbe.start(b))
            for probe in [near, far] { for path in ["f", ""] { try await probe.perform("watch \(path)") } }
            for device in [a, b] { try await device.ubiquity("offline", "") }
            try await a.shell("echo loses > f")
            try await b.shell("echo wins > f")
            try await near.waitUntilHeard("changed")
            try await far.waitUntilHeard("changed")
            for device in [b, a] {
                try await device.ubiquity("online", "")
                try await device.waitUntilIdle()
            }
            try await world.settle(a, b)
            for probe in [near, far] {
                try await probe.waitUntilHeard("gained true named")
                try await probe.waitUntilHeard("subitem gained true f")
            }
            try await near.waitUntilHeard("changed", times: 2)
            // The winner is what this device shows already.
            let changes = far.count("changed")
            try await b.ubiquity("resolve", "f")
            for probe in [near, far] {
                try await probe.waitUntilHeard("resolved conflict named")
                try await probe.waitUntilHeard("subitem resolved conflict f")
            }
            try await world.settle(b, a)
            try await a.shell("echo mark > mark")
            try await world.settle(a, b)
            try await far.waitUntilHeard("subitem changed mark")
            #expect(far.count("changed") == changes)
            // A version that is no conflict is announced as one.
            let gained = far.count("gained false named")
            try await a.shell("echo later > f")
            try await far.waitUntilHeard("changed", times: changes + 1)
            try await far.waitUntilHeard("gained false named", times: gained + 1)
        }
    }

    @Test("PN-09, PN-10, RT-06, RT-07: the presenter of a losing package is asked first, and notified")
    func packageConflicts() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir p.rtfd; echo base > p.rtfd/text; echo base > p.rtfd/other")
            try await world.settle(a, b)
            try await b.shell("cat p.rtfd/*")
            let (near, far) = (try await LibraryProbe.start(a), try await LibraryProbe.start(b))
            for probe in [near, far] { try await probe.perform("watch p.rtfd") }
            for device in [a, b] { try await device.ubiquity("offline", "") }
            try await b.shell("echo earlier > p.rtfd/text")
            try await far.waitUntilHeard("subitem changed text")
            try await a.shell("sleep 1; echo later > p.rtfd/other")
            try await a.ubiquity("online", "")
            try await a.waitUntilIdle()
            let told = far.heard.count
            try await b.ubiquity("online", "")
            try await b.waitFor("conflict-count", "1", of: "p.rtfd")
            try await b.waitUntil("test $(cat p.rtfd/text p.rtfd/other | tr '\\n' ' ' | tr -d ' ') = baselater")
            try await far.waitUntilHeard("gained true named")
            try await near.waitUntilHeard("gained true named")
            let heard = far.heard.dropFirst(told)
            let asked = try #require(heard.firstIndex(of: "save"), "\(far.heard)")
            #expect(try asked < #require(heard.firstIndex { $0.hasPrefix("subitem changed") }), "\(far.heard)")
            try await b.ubiquity("resolve", "p.rtfd")
            for probe in [near, far] { try await probe.waitUntilHeard("resolved conflict named") }
        }
    }

    /// A presenter that registers later gets the device's state.
    @Test func latePresenterHearsOfAConflictsEnd() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await world.meet(a, "echo loses > f", b, "echo wins > f")
            try await a.waitFor("conflict-count", "1", of: "f")
            let probe = try await LibraryProbe.start(a)
            try await probe.perform("watch f")
            try await b.ubiquity("resolve", "f")
            try await probe.waitUntilHeard("resolved conflict named")
        }
    }

    @Test("PN-09, PN-11: an ordinary version is announced as gained, and as lost on all devices after its removal")
    func earlierVersions() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let (near, far) = (try await LibraryProbe.start(a), try await LibraryProbe.start(b))
            for probe in [near, far] { for path in ["f", ""] { try await probe.perform("watch \(path)") } }
            try await a.shell("echo newer > f")
            try await world.settle(a, b)
            for probe in [near, far] {
                try await probe.waitUntilHeard("gained false named")
                try await probe.waitUntilHeard("subitem gained false f")
            }
            // A change of permissions makes no version.
            try await a.shell("chmod 600 f")
            try await world.settle(a, b)
            try await a.shell("echo mark > mark")
            try await world.settle(a, b)
            for probe in [near, far] {
                try await probe.waitUntilHeard("subitem changed mark")
                #expect(probe.count("gained false named") == 1, "\(probe.heard)")
            }
        }
    }

    @Test("a waiting newer content is reported")
    func waitingContentIsReported() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let probe = try await LibraryProbe.start(b)
            try await b.shell("cat f; mkfifo ../go")
            let writer = try b.start("exec 3>> f; echo open; read -r line < ../go")
            try await world.eventually("it is open") { writer.outputSoFar == "open\n" }
            try await probe.perform("watch f")
            try await a.shell("echo newer > f")
            try await b.waitFor("downloading-status", "downloaded", of: "f")
            try await probe.waitUntilHeard("attributes")
            #expect(try await b.shell("cat f") == "base")
            try await world.shell("echo > '\(world.folder)/go'")
            try await writer.finish(within: 60)
            try await b.waitUntil("test \"$(cat f)\" = newer")
        }
    }

    @Test("LK-11: truncate(1), which opens without waiting, asks like every writer")
    func truncation() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo base > f")
            let probe = try await LibraryProbe.start(a)
            try await probe.perform("watch f")
            try await a.shell("truncate -s 2 f")
            try await probe.waitUntilHeard("relinquish to writer")
            #expect(try await a.shell("cat f") == "ba")
        }
    }
}
