import Foundation
import Testing
import UbiquityControl

/// Sign-in, sign-out and another account on a mount that runs.
@Suite struct SignOutTests {
    /// A cloud with the accounts ann and bob; the words that sign a device in to each.
    private func accounts(_ world: World) async throws -> (ann: [String], bob: [String]) {
        let data = world.folder + "/served"
        let ann = try await CommandMessageTests.serve(data, in: world)
        let created = try await world.ubiquity("account", "create", "bob", "--data", data)
        try await world.shell("printf '%s' '\(created.text)' > '\(data).bob'")
        return (ann, [ann[0], ann[1], "--account", "bob", "--token-file", data + ".bob"])
    }

    private func run(_ words: [String], _ device: Device) async throws -> String {
        let outcome = try await device.world.attempt([World.program] + words + ["--state", device.state])
        try #require(outcome.status == 0, "\(outcome)")
        return outcome.err
    }

    @Test("CI-10, CI-11, CI-12, CI-13, CI-14: a running mount follows the account of its device")
    func runningMountFollows() async throws {
        try await World.run { world in
            let (ann, bob) = try await accounts(world)
            let a = try world.device("a")
            _ = try await run(ann, a)
            try await a.mount(environment: ["UBIQUITY_PASSTHROUGH": "off"])
            try await a.shell("mkdir d; echo text > d/f; echo other > g")
            try await a.wait("--uploaded")
            try await a.ubiquity("offline", "")
            try await a.shell("echo waits > p")
            let watcher = try await Watcher.start(a)
            let program = try a.start(
                """
                exec 3< d/f 4<> g
                echo ready
                while [ ! -e '\(world.folder)/out' ]; do sleep 0.1; done
                cat <&3
                echo late >&4 || echo refused
                """)
            try await world.eventually("the program has its files open") { program.outputSoFar.contains("ready") }
            let out = try await run(["logout"], a)
            #expect(out.contains("signed out; 1 document waits to be uploaded and is safe; sign in as ann to continue"))
            try await world.shell("touch '\(world.folder)/out'")
            let held = try await program.finish()
            #expect(held.out.contains("text") && held.out.contains("refused"), "\(held)")
            try await watcher.waitFor("DELETE ./g", "DELETE,ISDIR ./d")
            #expect(try await a.shell("ls -A") == "")
            #expect(try await a.attribute("container", of: ".") == "default (signed out)")
            let refused = try await a.attempt("echo x > new")
            #expect(refused.status != 0 && refused.err.contains("Read-only"), "\(refused)")
            let status = try await a.status().cloud
            #expect(status.state == .signedOut && status.reason?.contains("sign in as ann") == true, "\(status)")

            // Another account, and documents off.
            _ = try await run(bob, a)
            #expect(try await a.shell("ls -A; echo mine > b; cat b") == "mine")
            try await watcher.waitFor("CREATE ./b")
            let off = try await run(["documents", "off"], a)
            #expect(off.contains("documents are off"))
            #expect(try await a.shell("ls -A") == "")
            #expect(try await a.attribute("container", of: ".") == "default (documents off)")
            _ = try await run(["documents", "on"], a)
            #expect(try await a.shell("ls -A") == "b")

            // The first account again: everything is back, and what waited is uploaded.
            _ = try await run(ann, a)
            #expect(try await a.shell("cat d/f g p; ls -A") == "text\nother\nwaits\nd\ng\np")
            try await watcher.waitFor("CREATE ./p", "CREATE,ISDIR ./d")
            try await a.wait("--uploaded")
            watcher.end()
            try await a.unmount("--lazy")
        }
    }

    @Test(
        "CI-13: a death at any step of an exchange loses nothing",
        arguments: ["account.opened", "account.exchanged", "account.closed", "account.left"])
    func deathDuringAnExchange(_ place: String) async throws {
        try await World.run { world in
            let (ann, bob) = try await accounts(world)
            let a = try world.device("a")
            _ = try await run(ann, a)
            try await a.mount(environment: ["UBIQUITY_FAULT": "\(place):kill:1"])
            try await a.ubiquity("offline", "")
            try await a.shell("echo waits > p")
            // The command cannot ask the mount any more, and has signed in nevertheless.
            _ = try await world.attempt([World.program] + bob + ["--state", a.state])
            try await a.mount()
            #expect(try await a.shell("ls -A; echo mine > b; cat b") == "mine")
            _ = try await run(["logout"], a)
            #expect(try await a.shell("ls -A") == "")
            _ = try await run(ann, a)
            #expect(try await a.shell("ls -A; cat p") == "p\nwaits")
            try await a.wait("--uploaded")
            _ = try await run(bob, a)
            #expect(try await a.shell("ls -A; cat b") == "b\nmine")
            try await a.unmount()
        }
    }

    @Test("a new token of the same account changes nothing for programs")
    func newTokenKeepsOpenFiles() async throws {
        try await World.run { world in
            let (ann, _) = try await accounts(world)
            let a = try world.device("a")
            _ = try await run(ann, a)
            try await a.mount()
            try await a.shell("echo text > f")
            let program = try a.start(
                """
                exec 4>> f
                echo ready
                while [ ! -e '\(world.folder)/go' ]; do sleep 0.1; done
                echo more >&4
                """)
            try await world.eventually("the program has its file open") { program.outputSoFar.contains("ready") }
            let data = world.folder + "/served"
            let created = try await world.ubiquity(
                "account", "token", "create", "--data", data, "--account", "ann", "--name", "second")
            try await world.shell("printf '%s' '\(created.text)' > '\(data).second'")
            let out = try await run([ann[0], ann[1], "--account", "ann", "--token-file", data + ".second"], a)
            #expect(out.contains("shows account ann"), "\(out)")
            try await world.shell("touch '\(world.folder)/go'")
            #expect(try await program.finish().status == 0)
            #expect(try await a.shell("cat f") == "text\nmore")
            try await a.wait("--uploaded")
            try await a.unmount()
        }
    }

    @Test("CI-13, AW-14: the notes example closes at a sign-out, and keeps unsaved text until the account is back")
    func notesAtSignOut() async throws {
        try await World.run { world in
            let (ann, bob) = try await accounts(world)
            let notes = World.program.split(separator: "/").dropLast().map { "/\($0)" }.joined() + "/notes"
            let a = try world.device("a")
            _ = try await run(ann, a)
            try await a.mount()
            try await a.shell("echo title > note")
            let editor = try world.start(["/bin/sh", "-ec", "sleep 1000 | exec '\(notes)' edit '\(a.mountPoint)/note'"])
            func hears(_ line: String) async throws {
                try await world.eventually("the notes program says '\(line)': \(editor.outputSoFar)") {
                    editor.outputSoFar.split(separator: "\n").contains { $0 == line }
                }
            }
            try await hears("open")
            _ = try await run(bob, a)
            try await hears("signed out: sign in again to open the note")
            try await hears("closed")
            #expect(try await a.shell("ls -A") == "")
            editor.signal(9)
        }
    }
}
