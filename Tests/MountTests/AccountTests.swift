import Testing

/// Messages about the account that a device uses.
@Suite struct AccountTests {
    @Test func loginAndMountNameTheDocumentsThatAreNoLongerShown() async throws {
        try await World.run { world in
            let a = try world.device("a")
            let first = try await a.tryMount()
            #expect(first.status == 0 && first.err.contains("account local at the cloud on this machine"), "\(first)")
            #expect(!first.err.contains("not shown"), "\(first)")
            try await a.shell("mkdir d; echo 1 > d/f; echo 2 > g")
            try await a.waitUntilIdle()
            try await a.unmount()

            let login = try await CommandMessageTests.serve(world.folder + "/served", in: world)
            let kept = "2 documents of account local at the cloud on this machine stay on this device and are not shown"
            let signedIn = try await world.attempt([World.program] + login + ["--state", a.state])
            #expect(signedIn.status == 0 && signedIn.err.contains("signed in: account ann at http://"), "\(signedIn)")
            #expect(signedIn.err.contains(kept) && signedIn.err.contains("'ubiquity login local'"), "\(signedIn)")

            let second = try await a.tryMount()
            #expect(second.status == 0 && second.err.contains("account ann at http://"), "\(second)")
            #expect(second.err.contains(kept) && second.err.split(separator: "\n").count == 1, "\(second)")
            #expect(try await a.shell("ls -A") == "")
            try await a.shell("echo 3 > h")
            try await world.attempt([World.program, "unmount", a.mountPoint])

            let out = try await world.ubiquity("logout", "--state", a.state)
            #expect(out.status == 0 && out.err.contains("signed out; ") && out.err.contains("sign in as ann"), "\(out)")
            let local = try await world.ubiquity("login", "local", "--state", a.state)
            #expect(local.status == 0 && local.err.contains("1 document of account ann at http://"), "\(local)")
            let quiet = try await a.tryMount(["--quiet"])
            #expect(quiet.status == 0 && quiet.err.isEmpty, "\(quiet)")
            #expect(try await a.shell("cat d/f g") == "1\n2")
        }
    }
}
