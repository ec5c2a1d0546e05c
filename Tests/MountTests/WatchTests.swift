import Foundation
import Glibc
import Testing
import UbiquityControl

/// Programs that watch a folder get events of remote changes like those of local changes.
@Suite struct WatchTests {
    private func devices(_ world: World, _ script: String) async throws -> (a: Device, b: Device) {
        let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
        try await a.shell(script)
        try await world.settle(a, b)
        return (a, b)
    }

    /// The kernel finds a folder in a listing that it still knows elsewhere, and forgets the folder of an earlier
    /// announcement, and waits for it (`RingWork`). The race took some ten seconds to occur.
    @Test func listingDoesNotWaitForMovedFolders() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "mkdir d0 m1 m2 m3 m4 m5 m6 m7 m8")
            let lister = try b.start("while [ ! -e '\(world.folder)/enough' ]; do find . > /dev/null 2>&1 || :; done")
            for _ in 0..<12 {
                for script in ["mv m? d0", "mv d0/m? ."] {
                    try await a.shell(script)
                    try await world.settle(a, b)
                }
            }
            try await world.shell("touch '\(world.folder)/enough'")
            #expect(try await lister.finish(within: 20).status == 0)
            try await world.settle(a, b)
            #expect(try await b.shell("find . | sort") == (try await a.shell("find . | sort")))
        }
    }

    @Test("PN-16: remote creations, changes, moves and deletions raise inotify events")
    func events() async throws {
        try await World.run { world in
            let (a, b) = try await devices(
                world,
                """
                mkdir d e; echo 1 > d/f; mkdir -p r/s; echo > r/x
                for n in g h i j k l; do echo 1 > $n; done; setfattr -n user.k -v v j
                """)
            try await b.shell("ls -R; cat g")
            let tree = try await Watcher.start(b)
            try await a.shell("echo new > new; mkdir nd; ln -s g link")
            try await tree.waitFor("CREATE ./new", "CLOSE_WRITE,CLOSE ./new", "CREATE,ISDIR ./nd", "CREATE ./link")
            try await a.shell("mv d/f d/f2")
            try await tree.waitFor("MOVED_FROM ./d/f", "MOVED_TO ./d/f2")
            try await a.shell("mv d/f2 e/f3")
            try await tree.waitFor("MOVED_FROM ./d/f2", "MOVED_TO ./e/f3")
            try await a.shell("mv d n")
            try await tree.waitFor("MOVED_FROM,ISDIR ./d", "MOVED_TO,ISDIR ./n")
            // One file is local, the other is not.
            try await a.shell("echo more >> g; echo more >> h")
            try await tree.waitFor("MOVED_TO ./g", "MOVED_TO ./h")
            let told = ["ATTRIB ./g", "ATTRIB ./i", "ATTRIB ./j", "ATTRIB ./k", "CREATE ./l2", "ATTRIB,ISDIR ./e"]
            #expect(told.allSatisfy { tree.count($0) == 0 }, "\(tree.lines)")
            try await a.shell(
                """
                chmod 600 g; setfattr -n user.k -v v i; setfattr -x user.k j; touch -d '2001-01-01 UTC' k; ln l l2
                setfattr -n user.k -v v e
                """)
            for line in told { try await tree.waitFor(line) }
            try await a.shell("rm g; rm -r r")
            try await tree.waitFor(
                "DELETE ./g", "DELETE,ISDIR ./r/s", "DELETE ./r/x", "DELETE,ISDIR ./r", "DELETE_SELF ./r/")
            // By then a new folder is watched, and changes in it are seen.
            try await a.shell("echo in > nd/in; mkdir n/sub")
            try await tree.waitFor("CREATE ./nd/in", "CREATE,ISDIR ./n/sub")
            #expect(tree.lines.allSatisfy { !$0.contains("ubiquity-") }, "\(tree.lines)")
            try await world.settle(a, b)
            let pictures = [
                try await Tools.picture(of: a.mountPoint, in: world),
                try await Tools.picture(of: b.mountPoint, in: world),
            ]
            expectSame(pictures, "two devices")
        }
    }

    @Test("PN-16: exchanged names raise an event for each new item")
    func exchangedNames() async throws {
        try await World.run { world in
            let (a, b) = try await devices(
                world, "mkdir d; for n in log log.1 log.2 log.3; do echo $n > d/$n; done; echo 1 > x; echo 2 > y")
            for _ in 1...3 {
                try await b.shell("cat d/* x y")
                let tree = try await Watcher.start(b)
                try await a.ubiquity("offline", "")
                try await a.shell("cd d; mv log.2 log.3; mv log.1 log.2; mv log log.1; echo new > log")
                try await a.ubiquity("online", "")
                try await a.python(
                    """
                    import ctypes
                    libc = ctypes.CDLL(None, use_errno=True)
                    assert libc.renameat2(-100, b'x', -100, b'y', 2) == 0
                    """)
                for name in ["d/log", "d/log.1", "d/log.2", "d/log.3", "x", "y"] {
                    try await world.eventually("an event names \(name)") {
                        !tree.lines.filter { ["MOVED_TO ./\(name)", "CREATE ./\(name)"].contains($0) }.isEmpty
                    }
                }
                try await world.settle(a, b)
                let pictures = [
                    try await Tools.picture(of: a.mountPoint, in: world),
                    try await Tools.picture(of: b.mountPoint, in: world),
                ]
                expectSame(pictures, "two devices")
            }
        }
    }

    @Test("PN-16: a replayed change is not local: it is not uploaded, and raises its events once")
    func replayedChangesAreNotUploaded() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "mkdir d; for n in $(seq 20); do echo $n > d/$n; done")
            try await b.shell("ls -lR; cat d/*")
            let watcher = try await Watcher.start(b)
            try await a.shell("cd d; for n in $(seq 10); do echo again >> $n; done; rm 11; mv 12 twelve; chmod 600 13")
            try await a.waitUntilIdle()
            let revision = try await a.status().revision
            let sent = try await b.sent {
                try await watcher.waitFor("MOVED_TO ./d/10", "DELETE ./d/11", "MOVED_TO ./d/twelve", "ATTRIB ./d/13")
                try await world.settle(a, b)
            }
            #expect(sent == 0)
            #expect(try await b.status().revision == revision)
            #expect(try await a.status().revision == revision)
            for line in ["MOVED_TO ./d/twelve", "DELETE ./d/11", "ATTRIB ./d/13", "MOVED_TO ./d/5"] {
                #expect(watcher.count(line) == 1, "\(line) in \(watcher.lines)")
            }
            #expect(try await b.shell("stat -c '%Y %a' d/*") == (try await a.shell("stat -c '%Y %a' d/*")))
        }
    }

    @Test("PN-16: an open file keeps its content; a watcher sees its replacement")
    func replacement() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "echo old > f; ln f other")
            try await b.shell("cat f")
            let holder = try b.start("exec 3< f; echo open; while test ! -e \(world.folder)/go; do sleep 0.02; done; cat <&3")
            try await world.eventually("it is open") { holder.outputSoFar == "open\n" }
            let file = try await Watcher.start(b, "f", recursive: false)
            let folder = try await Watcher.start(b)
            try await a.shell("echo new > f")
            try await folder.waitFor("MOVED_TO ./f", "MOVED_TO ./other")
            #expect(try await b.shell("cat f other; stat -c %h f") == "new\nnew\n2")
            #expect(try await b.shell("test f -ef other && echo same") == "same")
            try await file.waitFor("ATTRIB f")
            try await world.shell("touch '\(world.folder)/go'")
            #expect(try await holder.finish().out == "open\nold\n")
        }
    }

    @Test("PN-16: file managers (gio monitor) and tail -F follow")
    func programs() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "mkdir d; echo one > d/log; echo 1 > d/gone")
            try await b.shell("ls d; cat d/log")
            let monitor = try await Watcher.start(
                b, script: "(for n in $(seq 600); do touch d/.probe; sleep 0.1; done) & exec stdbuf -oL gio monitor -d d",
                ready: "d: \(b.mountPoint)/d/.probe: attributes changed")
            let tail = try await Watcher.start(b, script: "exec stdbuf -oL tail -n 1 -F d/log 2>&1", ready: "one")
            try await a.shell("echo 2 > d/two; rm d/gone")
            try await world.eventually("gio reports it") {
                let lines = monitor.lines.joined(separator: "\n")
                return lines.contains("d/two: created") && lines.contains("d/gone: deleted")
            }
            try await a.shell("echo two >> d/log")
            try await tail.waitFor("two")
            try await world.eventually("gio reports the change") {
                monitor.lines.contains { $0.contains("d/log") }
            }
        }
    }

    @Test("PN-16: a local edit that meets a remote one is a conflict")
    func races() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "echo base > f; mkdir d")
            try await b.shell("cat f; ls d")
            let watcher = try await Watcher.start(b)
            try await b.ubiquity("offline", "")
            try await b.shell("echo b > f; touch -d '2 days ago' f; echo b > d/mine; mkdir both; echo b > both/b")
            try await a.shell("echo a > f; mkdir both; echo a > both/a; rmdir d")
            try await a.waitUntilIdle()
            try await b.ubiquity("online", "")
            try await watcher.waitFor("CREATE ./both/a")
            try await world.settle(a, b)
            #expect(try await b.shell("cat d/mine both/a both/b") == "b\na\nb")
            for device in [a, b] { #expect(try await device.attribute("conflict-count", of: "f") == "1") }
            let pictures = [
                try await Tools.picture(of: a.mountPoint, in: world),
                try await Tools.picture(of: b.mountPoint, in: world),
            ]
            expectSame(pictures, "two devices")
        }
    }

    @Test("PN-16: waiting programs, also with a folder locked, do not delay remote changes")
    func waitingPrograms() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "mkdir d; echo 1 > d/f; echo 2 > d/g")
            try await b.shell("ls -R; cat d/f; mkfifo ../go")
            let watcher = try await Watcher.start(b)
            let holder = try b.start("'\(World.program)' coordinate write d/f -- sh -c 'echo in; read -r line < ../go'")
            try await world.eventually("it is claimed") { holder.outputSoFar == "in\n" }
            // 64 waiting opens, far more than there are threads; and names to remove, each with the folder locked.
            let opens = try b.start("for i in $(seq 64); do cat d/f & done; wait")
            let removals = try b.start("for i in 1 2 3; do rm d/f & mv d/f d/h & done; wait")
            try await world.eventually("all wait") {
                try await b.status().coordination?.claims.filter { $0.state == "waiting" }.count ?? 0 >= 64
            }
            try await a.shell("for n in $(seq 50); do echo $n > d/n$n; done; rm d/g; echo > outside")
            try await a.waitUntilIdle()
            try await b.waitUntil("test -e d/n50 -a ! -e d/g -a -e outside")
            // They are refused after their time limit; the opens continue.
            let refused = try await removals.finish()
            try await world.shell("echo > '\(world.folder)/go'")
            let read = try await opens.finish()
            #expect(read.out.contains("1\n"), "\(read) \(refused)")
            try await a.shell("echo > d/last")
            try await watcher.waitFor("CREATE ./d/last")
        }
    }

    @Test("PN-16: a daemon that is killed while it replays leaves no mount that hangs, and ends in time")
    func kills() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "mkdir d")
            for round in 0..<6 {
                try await b.shell("ls d")
                let watcher = try await Watcher.start(b)
                let work = try a.start("for n in $(seq 300); do echo $n > d/\(round).$n; done")
                try await world.eventually("it replays") { watcher.count("CREATE ./d/\(round).5") == 1 }
                watcher.end()
                if round % 2 == 0 {
                    try await b.killAndMount()
                } else {
                    try await b.unmount("--lazy")
                    try await world.eventually("it has ended") { b.processID == nil }
                    try await b.mount()
                }
                try await work.finish()
            }
            try await world.settle(a, b)
            #expect(try await b.shell("ls d | wc -l") == "1800")
            #expect(try await world.shell("pgrep -fc 'replay-changes \(b.mountPoint) ' || true").count < 2)
        }
    }

    @Test("PN-16: deletions in a renamed folder raise events") func deletionsInARenamedFolderRaiseEvents() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "mkdir -p d/s; echo 1 > d/z; echo 1 > d/s/t")
            try await b.shell("ls -R")
            let watcher = try await Watcher.start(b, ".", "d", "d/s", recursive: false)
            try await a.shell("mv d e")
            try await watcher.waitFor("MOVED_FROM,ISDIR ./d", "MOVED_TO,ISDIR ./e")
            try await a.shell("rm -r e")
            try await watcher.waitFor(
                "DELETE d/z", "DELETE d/s/t", "DELETE,ISDIR d/s", "DELETE_SELF d/s/", "DELETE_SELF d/",
                "DELETE,ISDIR ./e")
        }
    }

    @Test("PN-16: a folder's move raises events despite concurrent changes in it", arguments: ["touch s2/new", "rm s2/t"])
    func folderMoveWithChangesInsideRaisesEvents(change: String) async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "true")
            for round in 0..<5 {
                try await a.shell("mkdir -p r\(round)/d/s; echo 1 > r\(round)/d/s/t")
                try await world.settle(a, b)
                try await b.shell("ls -R")
                let watcher = try await Watcher.start(
                    b, "r\(round)", "r\(round)/d", "r\(round)/d/s", recursive: false)
                try await a.shell("cd r\(round); mv d/s s2; \(change)")
                try await watcher.waitFor("MOVED_FROM,ISDIR r\(round)/d/s", "MOVED_TO,ISDIR r\(round)/s2")
                watcher.end()
            }
        }
    }

    /// Also for names that the kernel caches as absent, or as present.
    /// Changes of one update are announced step by step, also if one item takes the place of another.
    @Test("PN-16: the removal of a folder and its replacement raise events", arguments: [
        // From the folder itself: its content takes its place.
        Taking(
            made: "mkdir -p f/f; echo 1 > f/f/s", change: "mv f/f t; rmdir f; mv t f",
            told: ["DELETE,ISDIR ./f", "MOVED_TO,ISDIR ./f"]),
        Taking(
            made: "mkdir f; echo 1 > f/f", change: "mv f/f t; rmdir f; mv t f",
            told: ["DELETE,ISDIR ./f", "MOVED_TO ./f"]),
        Taking(
            made: "mkdir -p f/g/h; echo 1 > f/g/h/s", change: "mv f/g/h .; rm -r f; mv h f",
            told: ["DELETE,ISDIR ./f/g", "DELETE,ISDIR ./f", "MOVED_TO,ISDIR ./f"]),
        // From beside it.
        Taking(
            made: "mkdir f g", change: "rmdir f; mv g f",
            told: ["DELETE,ISDIR ./f", "MOVED_FROM,ISDIR ./g", "MOVED_TO,ISDIR ./f"]),
        Taking(
            made: "mkdir f; echo 1 > f/s; echo 2 > g", change: "rm -r f; mv g f",
            told: ["DELETE ./f/s", "DELETE,ISDIR ./f", "MOVED_FROM ./g", "MOVED_TO ./f"]),
        // A newly created item.
        Taking(
            made: "mkdir -p f/g/h; echo 1 > f/g/h/s", change: "rm -r f; mkdir -p f/g/h; echo 2 > f/g/h/s",
            told: [
                "DELETE ./f/g/h/s", "DELETE,ISDIR ./f/g/h", "DELETE,ISDIR ./f/g", "DELETE,ISDIR ./f", "CREATE,ISDIR ./f",
            ]),
    ])
    func places(_ taking: Taking) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(taking.made)
            try await world.settle(a, b)
            let watcher = try await Watcher.start(b)
            try await a.ubiquity("offline", "")
            try await a.shell(taking.change)
            try await a.ubiquity("online", "")
            try await world.settle(a, b)
            try await a.shell("echo end > end")
            try await world.settle(a, b)
            try await watcher.waitFor("CREATE ./end")
            let told = watcher.lines.filter { taking.told.contains($0) }
            #expect(told == taking.told, "\(watcher.lines)")
            expectSame(
                [
                    try await Tools.picture(of: a.mountPoint, in: world),
                    try await Tools.picture(of: b.mountPoint, in: world),
                ], taking.change)
        }
    }

    /// None of these folders is deleted, though each loses its name for a moment: for the kernel none may be deleted
    /// either.
    @Test("PN-16: folders that pass on their names are not deleted, even in use", arguments: [
        "mv x t; mv y x; mv t y", "mkdir P; mv x P/x; mv y x", "mv x t; mv y x; mv z y; mv t z", "mv x y/x; mv y x",
    ])
    func handedOn(change: String) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p x/in y/in z/in; echo 1 > x/in/f; echo 2 > y/in/f; echo 3 > z/in/f")
            try await world.settle(a, b)
            let watcher = try await Watcher.start(b)
            let inside = try ["x", "y", "z"].map { try b.start("cd \($0); echo in; exec sleep 1000") }
            for program in inside { try await world.eventually("it is in") { program.outputSoFar == "in\n" } }
            try await a.ubiquity("offline", "")
            try await a.shell(change)
            try await a.ubiquity("online", "")
            try await world.settle(a, b)
            try await a.shell("echo end > end")
            try await world.settle(a, b)
            try await watcher.waitFor("CREATE ./end")
            let picture = try await Tools.picture(of: a.mountPoint, in: world)
            expectSame([picture, try await Tools.picture(of: b.mountPoint, in: world)], change)
            for program in inside {
                try await world.shell("ls /proc/\(program.processID)/cwd/; echo new > /proc/\(program.processID)/cwd/new")
            }
            try await world.settle(b, a)
            #expect(try await a.shell("find . -name new | wc -l") == "3")
        }
    }

    struct Taking: Sendable, CustomTestStringConvertible {
        var made: String, change: String, told: [String]
        var testDescription: String { change }
    }

    @Test func delayedChangesRaiseEvents() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world, "mkdir d")
            try await a.shell("for n in $(seq 1000); do echo $n > d/$n; done")
            let missing = "missing=0; for n in $(seq 1000); do test -e d/$n || missing=$((missing + 1)); done; echo $missing"
            #expect(try await b.shell("rm -f none; \(missing) > /dev/null; ls d > /dev/null; echo") == "")
            try await world.settle(a, b)
            #expect(try await b.shell(missing) == "0")
            try await a.shell("rm -r d/[1-4]*")
            try await world.settle(a, b)
            #expect(try await b.shell(missing) == "445")
        }
    }
}
