import Glibc
import Testing
import UbiquityControl

/// Programs without coordination beside programs with coordination.
@Suite struct CoordinationTests {
    @Test("RT-01, RT-06, RT-10, PN-12: cat makes an editor save first; eviction and rm ask it first")
    func trigger() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo old > f; echo other > g")
            try await a.waitUntilIdle()
            let editor = try await Editor.start(a, "f", unsaved: "new text")
            #expect(try await a.status().coordination?.clients.map(\.name) == ["editor"])
            #expect(try await a.shell("cat f") == "new text")
            try await editor.waitUntilHeard("ask relinquish-to-reader save-changes f")
            try await editor.waitUntilHeard("reacquire")
            try await a.wait("--uploaded", "f")
            #expect(try await a.ubiquity("evict", "f").status == 0)
            try await editor.waitUntilHeard("ask accommodate-eviction f")
            // Other files, and other uses of the folder, notify nobody.
            try await a.shell("cat g; mv g h; rm h")
            #expect(editor.heard.filter { $0.hasPrefix("ask") }.count == 2)
            try await a.shell("mv f moved")
            try await editor.waitUntilHeard("ask relinquish-to-writer f")
            try await editor.waitUntilHeard("moved f moved")
            try await a.shell("rm moved")
            try await editor.waitUntilHeard("ask relinquish-to-writer accommodate-deletion moved")
        }
    }

    @Test("RT-05, LK-15, PN-01: a silent editor is skipped, a refusal is reported, a dead editor is removed")
    func manners() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f; echo text > g; echo text > h")
            try await a.waitUntilIdle()
            let silent = try await Editor.start(a, "f", .silent)
            #expect(try await a.shell("cat f") == "text")
            try await silent.waitUntilHeard("passed-over")
            #expect(try await a.status().coordination?.clients.map(\.isUnresponsive) == [true])

            let refusing = try await Editor.start(a, "g", .refusing)
            let evicting = try await a.ubiquity("evict", "g")
            #expect(evicting.status == 1 && evicting.err.contains("editor refuses: not now"), "\(evicting)")
            #expect(try await a.attempt("cat g").err.contains("busy"))
            kill(refusing.command.processID, SIGKILL)
            try await world.eventually("the dead editor is forgotten") {
                try await a.attempt("cat g").status == 0
            }

            let dying = try await Editor.start(a, "h", .silent)
            let cat = try a.start("cat h")
            try await dying.waitUntilHeard("ask relinquish-to-reader save-changes h")
            kill(dying.command.processID, SIGKILL)
            #expect(try await cat.finish(within: 60).text == "text")
        }
    }

    @Test("RT-07, RT-11: a remote update makes an editor save first: a conflict, no loss")
    func remoteUpdate() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo base > f; echo base > g")
            try await world.settle(a, b)
            try await b.shell("cat f g")
            try await b.waitUntilIdle()
            let editor = try await Editor.start(b, "f", unsaved: "unsaved on b")
            try await a.shell("echo 'from a' > f")
            try await editor.waitUntilHeard("ask relinquish-to-writer save-changes f")
            try await world.settle(a, b)
            try await a.waitFor("conflict-count", "1", of: "f")
            let texts = try await a.shell("cat f .versions/f/*conflict*").split(separator: "\n")
            #expect(Set(texts) == ["from a", "unsaved on b"])
            // RT-03: a remote change is between two marks.
            let heard = editor.heard
            #expect(heard.contains("begin") && heard.contains("end"))
            try await a.shell("rm f")
            try await editor.waitUntilHeard("ask relinquish-to-writer accommodate-deletion f")
            try await world.settle(a, b)
            #expect(try await b.attempt("cat f").status != 0)
        }
    }

    @Test("LK-02, LK-03, LK-07: coordinate excludes others while a command runs")
    func coordinate() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo 1 > f; mkfifo ../go")
            let writer = try a.start(
                "'\(World.program)' coordinate write f -- sh -c 'echo 2 > f; echo in; read -r line < ../go; echo 3 > f'")
            try await world.eventually("it writes") { writer.outputSoFar == "in\n" }
            let reader = try a.start("cat f")
            try await world.eventually("a reader waits") {
                try await a.status().coordination?.claims.contains { $0.state == "waiting" } ?? false
            }
            let status = try await a.status().coordination
            #expect(status?.claims.contains { $0.owner == "ubiquity coordinate" && $0.items == ["write f"] } == true)
            // A wait can be interrupted, and given up.
            let impatient = try a.start("exec cat f")
            kill(impatient.processID, SIGINT)
            #expect(try await impatient.finish(within: 60).status == 128 + SIGINT)
            // O_NONBLOCK means nothing for a regular file: the open waits too.
            let nonBlocking = try a.start("dd if=f iflag=nonblock status=none")
            #expect(try await a.attempt("rm f").err.contains("busy"))
            let late = try await a.ubiquity("coordinate", options: ["--timeout", "0.5", "read", "\(a.mountPoint)/f", "--", "true"])
            #expect(late.status == 1 && late.err.contains("another program uses it"), "\(late)")
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await reader.finish(within: 60).text == "3")
            #expect(try await nonBlocking.finish(within: 60).text == "3")
            #expect(try await writer.finish(within: 60).status == 0)
            #expect(try await a.attempt("'\(World.program)' coordinate read f -- sh -c 'cat f; exit 7'").status == 7)
        }
    }

    @Test("LK-05, LK-14, LK-19: a package under a write claim is not uploaded in part")
    func claimedPackage() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir p.rtfd; echo 1 > p.rtfd/old; mkfifo ../go")
            try await world.settle(a, b)
            let writer = try a.start(
                "'\(World.program)' coordinate write p.rtfd -- sh -c "
                    + "'rm p.rtfd/old; echo in; read -r line < ../go; echo 2 > p.rtfd/new'")
            try await world.eventually("it writes") { writer.outputSoFar == "in\n" }
            // Longer than the wait for a package that is written without a pause.
            try await a.shell("echo other > other; sleep 12")
            try await b.waitUntil("test -e other")
            #expect(try await b.shell("ls p.rtfd") == "old")
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await writer.finish(within: 60).status == 0)
            try await world.settle(a, b)
            #expect(try await b.shell("ls p.rtfd") == "new")
        }
    }

    @Test("LK-03, LK-08, DS-19: a write claim delays a remote rename")
    func remoteMove() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > f; mkfifo ../go")
            try await world.settle(a, b)
            let writer = try a.start(
                "'\(World.program)' coordinate write f -- sh -c 'echo in; read -r line < ../go; echo 2 >> f'")
            try await world.eventually("it writes") { writer.outputSoFar == "in\n" }
            try await b.shell("mv f g")
            try await b.waitUntilIdle()
            try await world.eventually("the move waits") {
                try await a.status().coordination?.claims.contains { $0.state == "waiting" } ?? false
            }
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await writer.finish(within: 60).status == 0)
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.shell("ls; cat g") == "g\n1\n2") }
        }
    }

    @Test("LK-11: every change of a name or an attribute waits for a claim")
    func otherChanges() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo 1 > f; echo 2 > g; setfattr -n user.tag -v 1 f; mkfifo ../go ../come")
            func claimed(_ path: String, _ fifo: String) async throws -> Command {
                let writer = try a.start(
                    "'\(World.program)' coordinate write \(path) -- sh -c 'echo in; read -r line < ../\(fifo)'")
                try await world.eventually("\(path) is claimed") { writer.outputSoFar == "in\n" }
                return writer
            }
            let writers = [try await claimed("f", "go"), try await claimed("free", "come")]
            for change in [
                "setfattr -x user.tag f", "ln -s x free", "ln g free", "mkfifo free", "mkdir free", "touch free",
            ] {
                #expect(try await a.attempt(change).err.contains("busy"), "\(change)")
            }
            for fifo in ["go", "come"] { try await world.shell("echo > '\(world.folder)/\(fifo)'") }
            for writer in writers { #expect(try await writer.finish(within: 60).status == 0) }
            try await a.shell("setfattr -x user.tag f; ln -s x free")
        }
    }

    @Test("PN-12, RT-09: a presenter is asked about a remote deletion while another file is in use")
    func deletionsBesideAClaim() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > used; echo 2 > shown; mkfifo ../go")
            try await world.settle(a, b)
            let reader = try a.start(
                "'\(World.program)' coordinate read used -- sh -c 'echo in; read -r line < ../go'")
            try await world.eventually("it reads") { reader.outputSoFar == "in\n" }
            let editor = try await Editor.start(a, "shown", unsaved: "unsaved")
            try await b.ubiquity("offline", "")
            try await b.shell("rm used shown")
            try await b.ubiquity("online", "")
            try await editor.waitUntilHeard("ask relinquish-to-writer accommodate-deletion shown")
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await reader.finish(within: 60).status == 0)
            try await world.settle(b, a)
        }
    }

    @Test("PN-04, PN-08: own changes are not reported; foreign changes name their kind")
    func ownAccesses() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo old > f")
            try await world.settle(a, b)
            let editor = try await Editor.busy(a, "")
            try await editor.perform("open('f', 'w').write('in place')")
            try await editor.perform("open('.f~', 'w').write('aside'); os.rename('.f~', 'f')")
            try await editor.perform("os.utime('f'); os.chmod('f', 0o640); os.setxattr('f', 'user.tag', b'1')")
            // The writer has exited before the presenter is notified.
            try await editor.perform("[subprocess.run(['sh', '-c', 'echo child > f; : > g; rm g']) for _ in range(20)]")
            try await editor.perform("[threading.Thread(target=lambda: open('f', 'w').write('x')).start() for _ in range(20)]")
            try await a.waitUntilIdle()
            // A write without a close is found by a check every few seconds.
            try await editor.perform("kept = open('f', 'w'); kept.write('kept open'); kept.flush()")
            try await b.waitUntil("test \"$(cat f)\" = 'kept open'", within: 60)
            try await editor.perform("kept.close()")
            try await a.waitUntilIdle()
            try await a.shell("echo by another > h")
            try await editor.waitUntilHeard("added h")
            let told = ["changed", "moved", "added", "removed"]
            let heard = editor.heard.filter { line in told.contains { line.hasPrefix($0) } }
            #expect(heard.allSatisfy { $0.hasSuffix(" h") }, "\(heard)")
            // PN-04: a message says what kind of thing has changed.
            try await b.shell("chmod 600 f")
            try await editor.waitUntilHeard("fields mode")
            try await b.shell("setfattr -n user.colour -v red f")
            try await editor.waitUntilHeard("fields attributes")
            try await b.shell("touch -d 2020-01-01 f")
            try await editor.waitUntilHeard("fields times")
            try await b.shell("echo other > f")
            try await world.eventually("the content has changed: \(editor.heard)") {
                editor.heard.contains { $0.hasPrefix("fields content") }
            }
        }
    }

    @Test("plain programs wait for each other only if the mount is strict")
    func strict() async throws {
        try await World.run { world in
            let a = try await world.mounted("a", "--coordination", "strict")
            try await a.shell("echo 1 > f; echo 2 > g; mkfifo ../go")
            let writer = try a.start("exec 3>> f; echo open; read -r line < ../go; echo 2 >&3")
            try await world.eventually("it is open") { writer.outputSoFar == "open\n" }
            let reader = try a.start("cat f")
            try await world.eventually("the reader waits") {
                try await a.status().coordination?.claims.contains { $0.state == "waiting" } ?? false
            }
            #expect(try await a.shell("cat g") == "2")
            #expect(try await a.ubiquity("status").text.contains("coordination strict"))
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await reader.finish(within: 60).text == "1\n2")
        }
    }
}
