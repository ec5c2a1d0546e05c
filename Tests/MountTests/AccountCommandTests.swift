import Testing

/// The commands about accounts, tokens, devices, containers, usage and the trash, as a user gives them.
/// CI-02, CI-03, CI-15, CI-16, QU-01 to QU-04, SV-02, SV-04.
@Suite struct AccountCommandTests {
    /// A step: a command, whether it succeeds, and texts of its output.
    private struct Step {
        var command: String
        var fails = false
        var shows: [String]

        init(_ command: String, fails: Bool = false, _ shows: String...) {
            self.command = command
            self.fails = fails
            self.shows = shows
        }
    }

    private func run(_ steps: [Step], _ world: World) async throws {
        for step in steps {
            let outcome = try await world.attempt(["/bin/sh", "-c", "'\(World.program)' \(step.command) 2>&1"])
            #expect((outcome.status != 0) == step.fails, "\(step.command): \(outcome)")
            for text in step.shows { #expect(outcome.out.contains(text), "\(step.command): \(outcome)") }
        }
    }

    @Test func everyCommandOfAnAccountWorks() async throws {
        try await World.run { world in
            let served = world.folder + "/served"
            let login = try await CommandMessageTests.serve(served, in: world)
            let a = try world.device("a")
            #expect(try await world.attempt([World.program] + login + ["--state", a.state]).status == 0)
            try await a.mount()
            try await a.shell("mkdir Documents cache; echo letter > Documents/letter; echo c > cache/c; echo s > secret")
            try await a.shell("echo more >> Documents/letter; echo gone > gone")
            try await a.waitUntilIdle()
            try await a.shell("rm secret gone")
            try await a.waitUntilIdle()
            let data = "--data '\(served)'", account = "--account ann \(data)", state = "--state '\(a.state)'"
            try await run([
                Step("account create bob --quota 1G \(data)"), Step("account list \(data)", "ann\n", "bob\n"),
                Step("account create bob \(data)", fails: true, "an account of this name exists"),
                Step("account set ann --quota 2G \(data)"), Step("usage \(state)", "used"),
                Step("account set ann --quota standard \(data)"), Step("usage \(account)", "account ann", "Documents/letter"),
                Step("usage --json \(state)", "\"quota\":5000000000", "\"earlierVersions\""),
                Step("usage '\(a.mountPoint)/Documents'", "default", "documents and data"),
                Step("account token create --name app --container notes \(account)"),
                Step("account token create --name reader --read-only \(state)"),
                Step("account token list \(state)", "app", "notes", "reader", "read only", "token 1"),
                Step("account token revoke app \(account)"),
                Step("account token revoke app \(account)", fails: true, "no valid token of this name"),
                Step("account token list --json \(account)", "\"name\":\"reader\""),
                Step("container create notes --display-name 'My Notes' \(state)"),
                Step("container list \(account)", "default", "notes", "My Notes"),
                Step("trash delete '\(a.mountPoint)/secret'", fails: true, "give --yes"),
                Step("trash delete '\(a.mountPoint)/secret' --yes"), Step("trash list '\(a.mountPoint)'", "gone"),
                Step("trash empty '\(a.mountPoint)' --yes"),
                Step("usage delete default \(state)", fails: true, "give --yes"),
                Step("usage delete default --yes \(state)", "deleted 4 items", "for 30 days"),
            ], world)
            try await world.eventually("the deletion is here") { try await a.shell("ls -A") == "" }
            try await run([Step("usage restore default \(account)", "restored 4 items")], world)
            try await world.eventually("the items are back") {
                try await a.attempt("cat Documents/letter cache/c").out == "letter\nmore\nc\n"
            }
            try await run([
                Step("device list \(account)", "a ", "last contact"),
                Step("device remove a \(account)", "removed a", "token 1"),
            ], world)
            // The removal is shown on the device.
            try await world.eventually("the device knows") {
                try await world.ubiquity("status").out.contains("revoked")
            }
            try await run([
                Step("device list \(account)"), Step("account delete bob \(data)", fails: true, "give --yes"),
                Step("account delete bob --yes \(data)"), Step("account list \(data)", "ann"),
            ], world)
        }
    }

    @Test func codeSignsADeviceInAndContainersAreFolders() async throws {
        try await World.run { world in
            let served = world.folder + "/served"
            let login = try await CommandMessageTests.serve(served, in: world), data = "--data '\(served)'"
            let a = try world.device("a"), first = try await a.tryMount()
            #expect(first.err.contains("\(a.state) is a new device: nothing here yet"), "\(first)")
            try await a.unmount()
            let waiting = try world.start([World.program, "login", login[1], "--account", "ann", "--code", "--state", a.state])
            try await world.eventually("a code is shown") { waiting.outputSoFar.contains("-") }
            let code = waiting.outputSoFar.split(separator: "\n")[0]
            try await run([
                Step("account pending \(data)", String(code), "ann"),
                Step("account approve BBBB-BBBB \(data)", fails: true, "no sign-in waits with this code"),
                Step("account approve \(code.lowercased()) \(data)", "signs in to account ann"),
                Step("account pending --json \(data)"),
            ], world)
            let signedIn = try await waiting.finish()
            #expect(signedIn.status == 0 && signedIn.err.contains("signed in: account ann"), "\(signedIn)")
            let refused = try world.start([World.program, "login", login[1], "--account", "ann", "--code", "--state", a.state])
            try await world.eventually("a code is shown") { refused.outputSoFar.contains("-") }
            try await run([Step("account refuse \(refused.outputSoFar.split(separator: "\n")[0]) \(data)")], world)
            let outcome = try await refused.finish()
            #expect(outcome.status == 1 && outcome.err.contains("refused"), "\(outcome)")

            try await run([
                Step("container create notes --display-name 'My Notes' --state '\(a.state)'"),
                Step("container create photos --state '\(a.state)'"),
            ], world)
            let all = try await a.tryMount(["--containers", "all"])
            #expect(all.status == 0 && all.err.contains("mounted 3 containers in"), "\(all)")
            #expect(try await a.shell("ls") == "My Notes\ndefault\nphotos")
            try await a.shell("echo n > 'My Notes/n'; mv 'My Notes/n' photos/; echo 'a:b' > 'photos/a:b'; touch photos/N")
            #expect(try await a.shell("cat photos/n; ls 'My Notes'") == "n")
            let moved = try await a.attempt("python3 -c 'import os; os.rename(\"photos/n\", \"My Notes/n\")'")
            #expect(moved.err.contains("[Errno 18]"), "\(moved)")
            let names = try await world.ubiquity("doctor", "--portable", a.mountPoint + "/photos")
            #expect(names.status == 1 && names.out.contains("/a:b: ") && names.out.contains("/N: "), "\(names)")
            let end = try await world.ubiquity("unmount", a.mountPoint)
            #expect(end.status == 0, "\(end)")
            #expect(try await a.shell("ls -A") == "")
        }
    }
}
