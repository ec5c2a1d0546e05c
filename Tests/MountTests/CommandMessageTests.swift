import Glibc
import Testing
import UbiquityControl

/// The messages of commands about failures and waits. They name the affected items, and no others.
@Suite struct CommandMessageTests {
    @Test func waitNamesOnlyPendingItems() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d e; echo text > d/f; echo text > e/f")
            try await world.settle(a, b)
            try await b.ubiquity("offline", "")
            try await b.shell("echo new > d/new; echo new > e/new")
            let uploaded = try await b.ubiquity("wait", "d", options: ["--uploaded", "--timeout", "1.5"])
            #expect(uploaded.status == 1 && uploaded.err.contains("d/new") && !uploaded.err.contains("e/new"), "\(uploaded)")
            // Without a terminal there is no progress line.
            #expect(!uploaded.err.contains("\u{1b}") && !uploaded.err.contains("waiting …"), "\(uploaded)")
            let downloaded = try await b.ubiquity("wait", "d", options: ["--downloaded", "--timeout", "0"])
            #expect(downloaded.status == 1 && downloaded.err.contains("d/f: to download, waiting"), "\(downloaded)")
            #expect(downloaded.err.contains("'ubiquity download'"), "\(downloaded)")
            #expect(!downloaded.err.contains("new") && !downloaded.err.contains("e/f"), "\(downloaded)")
            // A deletion in a folder, or a move out of it, is also a change of the folder.
            try await b.ubiquity("online", "")
            try await b.wait("--uploaded")
            try await b.ubiquity("offline", "")
            try await b.shell("rm d/new; mv d/f e/moved; mv e/new e/other; ln e/f e/link")
            let changed = try await b.ubiquity("wait", "d", options: ["--uploaded", "--timeout", "0"])
            #expect(changed.status == 1 && changed.err.contains("d/new (deleted)"), "\(changed)")
            #expect(changed.err.contains("e/moved") && !changed.err.contains("e/other"), "\(changed)")
            // The same holds for another name of a file.
            let link = try await b.ubiquity("wait", "e/link", options: ["--uploaded", "--timeout", "0"])
            #expect(link.status == 1 && link.err.contains("e/link") && !link.err.contains("e/moved"), "\(link)")
        }
    }

    @Test func terminalShowsProgressDuringAWait() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.ubiquity("offline", "")
            try await a.shell("echo text > f")
            let command = "'\(World.program)' wait --uploaded '\(a.mountPoint)'"
            let wait = try world.start(["script", "-qec", command, "/dev/null"])
            try await world.eventually("it is shown") { wait.outputSoFar.contains("waiting …") }
            try await a.ubiquity("online", "")
            let outcome = try await wait.finish()
            // The progress line is removed at the end. News of conflicts in other mounts may follow.
            #expect(outcome.status == 0 && outcome.out.contains("\r\u{1b}[K"), "\(outcome)")
        }
    }

    @Test func waitNamesItemBlockedByAnExcludedName() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.settle(a, b)
            try await b.ubiquity("offline", "")
            try await b.shell("mkdir d; echo d/x > .ubiquityignore; echo local > d/x")
            try await a.shell("mkdir d; echo synced > d/x")
            try await a.waitUntilIdle()
            try await b.ubiquity("online", "")
            let waited = try await b.ubiquity("wait", "", options: ["--idle", "--timeout", "5"])
            #expect(waited.status == 1 && waited.err.contains("not synced has its name, d/x"), "\(waited)")
            #expect(try await b.shell("cat d/x") == "local")
        }
    }

    @Test func waitReportsOpenFiles() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > f; echo 1 > g")
            try await world.settle(a, b)
            let writer = try a.start("exec 5<>f; printf NEW >&5; exec 6<>g; echo open; exec sleep 600")
            try await world.eventually("it is open") { writer.outputSoFar == "open\n" }
            try await a.wait("--uploaded", "f")
            try await b.wait("--idle")
            #expect(try await b.shell("head -c 3 f") == "NEW")
            // A remote change waits meanwhile, and the message names the program that it waits for.
            try await b.shell("echo 2 > g")
            try await b.waitUntilIdle()
            let waited = try await a.ubiquity("wait", "", options: ["--idle", "--timeout", "3"])
            #expect(waited.status == 1 && waited.err.contains("a change from another device to g waits until the program"), "\(waited)")
        }
    }

    @Test func statusOfChangedFileSaysWhyItWaits() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.waitUntilIdle()
            try await a.ubiquity("offline", "")
            try await a.shell("echo text > new")
            let line = try await a.ubiquity("status", "new").out
            #expect(line.contains("upload: this mount is offline on request"), "\(line)")
            let json = try await a.ubiquity("status", "new", options: ["--json"]).out
            #expect(json.contains("uploadWaits") && json.contains("\"offline\""), "\(json)")
            try await a.ubiquity("online", "")
            try await a.wait("--uploaded", "new")
            #expect(try await !a.ubiquity("status", "new").out.contains("upload: "))
        }
    }

    @Test func failedReadIsNotPending() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo text > read; echo text > pinned")
            try await world.settle(a, b)
            try await b.ubiquity("offline", "")
            #expect(try await b.attempt("cat read").status != 0)
            #expect(try await b.ubiquity("pin", "pinned").status == 0)
            let status = try await b.status()
            #expect(!status.pending.contains { $0.path == "read" }, "\(status.pending)")
            #expect(status.downloads.items == 1)
            // The status of the file itself says it too.
            let line = try await b.ubiquity("status", "read").out
            #expect(line.contains("download failed: ") && line.contains("offline on request"), "\(line)")
            try await b.ubiquity("online", "")
            try await b.wait("--downloaded", "pinned")
        }
    }

    /// Saves again after each upload, in an endless loop.
    private static let saver = """
        import os, sys, time
        os.chdir(sys.argv[1])
        for number in range(1000000):
            with open('f', 'w') as file: file.write(str(number))
            while os.getxattr('f', 'user.ubiquity.is-uploaded') != b'1': time.sleep(0.002)
        """

    @Test func statusShowsThrottledItems() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let saver = try world.start(["/usr/bin/python3", "-c", Self.saver, a.mountPoint])
            try await world.eventually("it is throttled") {
                try await a.status().pending.contains { $0.path == "f" && $0.reason == .throttled && $0.retryAt != nil }
            }
            try await world.eventually("users see the error") {
                try await world.ubiquity("status", "--state", a.state).out.contains("f: to upload, throttled")
            }
            saver.signal(SIGKILL)
        }
    }

    @Test func awaitedItemIsNotThrottled() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let saver = try world.start(["/usr/bin/python3", "-c", Self.saver, a.mountPoint])
            // Longer than the command may take on a busy machine.
            var retryAt = 0.0
            try await world.eventually("it is throttled for 5 s", within: 120) {
                try await Task.sleep(for: .milliseconds(500))
                let item = try await a.status().pending.first { $0.path == "f" && $0.reason == .throttled }
                retryAt = item?.retryAt ?? 0
                return retryAt > Double(time(nil)) + 5
            }
            saver.signal(SIGKILL)
            try await a.wait("--uploaded", "f")
            #expect(Double(time(nil)) < retryAt)
            #expect(try await a.attribute("is-uploaded", of: "f") == "1")
        }
    }

    @Test func statusOfTheMountPointShowsDeletionsOnHold() async throws {
        try await World.run { world in
            // Another device made them: a device may delete its own fresh files without a question.
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await b.shell("mkdir d; for n in $(seq 150); do echo $n > d/$n; done; echo x > keep")
            try await world.settle(a, b)
            try await a.shell("rm -r d")
            #expect(try await a.ubiquity("wait", "", options: ["--uploaded", "--timeout", "60"]).status == 1)
            let line = try await a.ubiquity("status", "").out
            #expect(line.split(separator: "\n").count == 1 && line.contains("held: 151 deletions"), "\(line)")
            #expect(try await a.report("").heldDeletions == 151)
            #expect(try await a.report("keep").heldDeletions == nil)
            for (decision, count) in [("undo", 151), ("confirm", 0)] {
                let outcome = try await a.ubiquity("deletions", "", options: [decision, "--json"])
                #expect(try ControlCodec.decode(DeletionsReport.self, from: outcome.text.utf8).items == count)
            }
            #expect(try await a.shell("ls d | wc -l") == "150")
        }
    }

    @Test func missingProgramExitsAsInAShell() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            for words in [["run", "--no-materialize"], ["coordinate", "read", a.mountPoint + "/f"]] {
                for (program, status) in [("no-such-program", 127), (a.mountPoint + "/f", 126)] {
                    let outcome = try await world.attempt([World.program] + words + ["--", program])
                    #expect(outcome.status == status && outcome.err.contains("run \(program)"), "\(outcome)")
                }
            }
        }
    }

    @Test func controlCharactersInNamesAreEscaped() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > \"$(printf 'a\\033[31mb')\"")
            try await a.waitUntilIdle()
            for command in ["evict", "download", "pin", "unpin"] {
                let outcome = try await a.ubiquity(command, "", options: ["--verbose"])
                #expect(!outcome.out.contains("\u{1b}") && outcome.out.contains("[31mb"), "\(outcome)")
            }
        }
    }

    @Test func stateInAContainerIsRefused() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try world.device("b"))
            let outcome = try await world.ubiquity("mount", "--state", a.mountPoint + "/state", b.mountPoint)
            #expect(outcome.status == 1 && outcome.err.contains("mounted on \(a.mountPoint)"), "\(outcome)")
            #expect(try await a.shell("ls -A") == "")
        }
    }

    @Test func remountReportsALazyUnmount() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            let reader = try a.start("exec 9<f; echo open; exec sleep 600")
            try await world.eventually("it is open") { reader.outputSoFar == "open\n" }
            #expect(try await world.ubiquity("unmount", "--lazy", a.mountPoint).status == 0)
            let refused = try await a.tryMount()
            #expect(refused.status == 1 && refused.err.contains("detached with --lazy"), "\(refused)")
            reader.signal(9)
            try await reader.finish()
            try await world.eventually("it can be mounted") { try await a.tryMount().status == 0 }
            #expect(try await a.shell("cat f") == "text")
        }
    }

    /// Starts a cloud of its own with an account.
    /// - Returns: the arguments with which a device signs in to it.
    static func serve(_ data: String, in world: World) async throws -> [String] {
        let server = try world.start([World.program, "serve", "--data", data, "--listen", "127.0.0.1:0"])
        try await world.eventually("it listens") { server.outputSoFar.contains("listening on ") }
        let url = try #require(server.outputSoFar.split(separator: " ").last).trimmingPrefix("http://")
        let created = try await world.ubiquity("account", "create", "ann", "--data", data)
        let token = data + ".token"
        try await world.shell("printf '%s' '\(created.text)' > '\(token)'")
        return ["login", "http://\(url.prefix { $0 != "\n" })", "--account", "ann", "--token-file", token]
    }

    @Test func refusedReadShowsThatTheDeviceIsSignedOut() async throws {
        try await World.run { world in
            let login = try await Self.serve(world.folder + "/served", in: world)
            let (a, b) = (try world.device("a"), try world.device("b"))
            for device in [a, b] {
                try #require(try await world.attempt([World.program] + login + ["--state", device.state]).status == 0)
                try await device.mount()
            }
            try await a.shell("head -c 300000 /dev/urandom > f")
            try await world.settle(a, b)
            let deleted = try await world.ubiquity("account", "delete", "ann", "--yes", "--data", world.folder + "/served")
            try #require(deleted.status == 0, "\(deleted)")
            let read = try await b.attempt("cat f")
            #expect(read.status == 1 && read.err.contains("Stale file handle"), "\(read)")
            try await b.waitUntil("getfattr --only-values -n user.ubiquity.downloading-error f | grep -q 'sign in again'")
            #expect(try await b.attribute("downloading-error-code", of: "f") == "signedOut")
            // Long before the feed's next own request.
            try await world.eventually("the error is shown", within: 10) {
                let cloud = try await b.status().cloud
                return cloud.state == .signedOut && cloud.reason?.isEmpty == false
            }
        }
    }

    @Test func pathOutsideTheMountDoesNotStopTheOthers() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await a.waitUntilIdle()
            let (here, elsewhere) = (a.mountPoint + "/f", world.folder)
            for (command, word) in [("evict", "evicted"), ("download", "downloaded"), ("pin", "pinned"), ("status", "current")] {
                let some = try await world.ubiquity(command, elsewhere, here)
                #expect(some.status == 1 && some.out.contains(word), "\(some)")
                #expect(some.err.contains("\(elsewhere): not in a mounted container"), "\(some)")
                #expect(try await world.ubiquity(command, elsewhere).status == 3)
            }
            #expect(try await world.ubiquity("wait", elsewhere, here).status == 3)
        }
    }

    @Test func invalidDeviceNamesAreRefused() async throws {
        try await World.run { world in
            for name in ["", "a\nb", "\u{1b}[31m", String(repeating: "x", count: 256)] {
                let outcome = try await world.ubiquity("mount", "--device", name, world.folder + "/nowhere")
                #expect(outcome.status == 2 && outcome.err.contains("--device"), "\(outcome)")
            }
        }
    }

    /// Signing in at another cloud, where an account has the same name, shows only that account's documents.
    @Test func twoCloudsMayHaveAccountsOfOneName() async throws {
        try await World.run { world in
            let device = try world.device("a")
            let clouds = [world.folder + "/one", world.folder + "/two"]
            var logins = [[String]]()
            for cloud in clouds { logins.append(try await Self.serve(cloud, in: world)) }
            func mount(_ login: [String]) async throws {
                try #require(try await world.attempt([World.program] + login + ["--state", device.state]).status == 0)
                try await device.mount()
            }
            try await mount(logins[0])
            try await device.shell("echo first > f")
            try await world.settle(device)
            try await device.unmount()
            try await mount(logins[1])
            #expect(try await device.shell("ls") == "")
            try await device.shell("echo second > g")
            try await world.settle(device)
            #expect(try await device.status().pending.isEmpty)
            try await device.unmount()
            try await mount(logins[0])
            #expect(try await device.shell("cat *") == "first")
        }
    }

    @Test func wrongUsageAndAnAbsentCloudHaveTheirExitCodes() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await a.waitUntilIdle()
            let file = a.mountPoint + "/f"
            for words in [
                ["coordinate", "--option", "bogus", "write", file, "--", "true"],
                ["coordinate", "--option", "for-deleting", "read", file, "--", "true"],
                ["coordinate", "--timeout", "inf", "read", file, "--", "true"], ["wait", "--timeout", "inf", file],
            ] {
                let outcome = try await world.attempt([World.program] + words)
                #expect(outcome.status == 2 && outcome.err.contains("must be") || outcome.err.contains("is one of"), "\(outcome)")
            }
            try await a.ubiquity("offline", "")
            for words in [["trash", "list", a.mountPoint], ["trash", "restore", file]] {
                let outcome = try await world.attempt([World.program] + words)
                #expect(outcome.status == 3 && !outcome.err.isEmpty, "\(outcome)")
            }
        }
    }

    /// The account may be gone, and the local content may be the only copy.
    @Test func nothingIsEvictedWhileTheDeviceIsSignedOut() async throws {
        try await World.run { world in
            let login = try await Self.serve(world.folder + "/served", in: world)
            let a = try world.device("a")
            try #require(try await world.attempt([World.program] + login + ["--state", a.state]).status == 0)
            try await a.mount()
            try await a.shell("echo text > f")
            try await world.settle(a)
            let deleted = try await world.ubiquity("account", "delete", "ann", "--yes", "--data", world.folder + "/served")
            try #require(deleted.status == 0, "\(deleted)")
            try await a.shell("echo more > g")
            try await world.eventually("the error is shown") { try await a.status().cloud.state == .signedOut }
            let outcome = try await world.ubiquity("evict", a.mountPoint + "/f")
            #expect(outcome.status == 1 && outcome.text.isEmpty && outcome.err.contains("signed out"), "\(outcome)")
            #expect(try await a.shell("cat f") == "text")
        }
    }

    @Test func loginNamesMountedContainers() async throws {
        try await World.run { world in
            let login = try await Self.serve(world.folder + "/served", in: world)
            let a = try await world.mounted("a")
            for (words, state) in [(login, "shows account ann"), (["logout"], "shows an empty folder")] {
                let outcome = try await world.attempt([World.program] + words + ["--state", a.state])
                #expect(outcome.status == 0 && outcome.err.contains("\(a.mountPoint) \(state)"), "\(outcome)")
            }
        }
    }

    /// A program that has a file open for writing delays others, and the status names it.
    @Test func statusNamesProgramsThatDelayOthers() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo old > changed; echo old > removed")
            try await world.settle(a, b)
            let writer = try b.start("exec 3<> changed 4<> removed; echo in; exec sleep 1000")
            try await world.eventually("they are open") { writer.outputSoFar == "in\n" }
            try await a.shell("echo new > changed; rm removed")
            try await world.eventually("both are reported") {
                let held = try await b.status().pending.filter { $0.error?.contains("closes it") == true }
                return held.map(\.path) == ["changed", "removed"]
            }
            writer.signal(SIGTERM)
            try await b.waitUntil("test \"$(cat changed)\" = new && ! test -e removed")
            #expect(try await b.status().pending.isEmpty)
        }
    }

    /// They are in the mount table, and another user may not ask them.
    @Test(.enabled(if: getuid() == 0, "another user takes root")) func mountsOfOtherUsersAreIgnored() async throws {
        try await World.run { world in
            _ = try await world.mounted("a")
            let outcome = try await world.attempt(
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-u", "UBIQUITY_STATE",
                    "HOME=/nonexistent", World.program, "status"])
            #expect(outcome.status == 3 && outcome.err.contains("no container is mounted"), "\(outcome)")
        }
    }

    /// 3: none of the named items could be handled, since no cloud was reachable. 2: it is not clear which mount is
    /// meant.
    @Test func exitCodesTellMissingCloudFromMissingMount() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo here > here; echo away > away; echo too > too")
            try await world.settle(a, b)
            try await b.shell("cat here")
            try await b.ubiquity("offline", "")
            let program = World.program
            for (command, status) in [("download away too", 3), ("download here away", 1), ("download here", 0), ("trash list .", 3),
                // The cloud may have a version that it did not announce.
                ("restore here deadbeef", 3),
            ] {
                let outcome = try await b.attempt("'\(program)' \(command)")
                #expect(outcome.status == status, "\(command): \(outcome)")
            }
            for command in ["list", "log", "doctor", "trash list", "deletions undo"] {
                let outcome = try await world.attempt(["/bin/sh", "-c", "'\(program)' \(command)"])
                #expect(outcome.status == 2, "\(command): \(outcome)")
                #expect(outcome.err.contains("name the mount point"), "\(command): \(outcome)")
            }
        }
    }
}
