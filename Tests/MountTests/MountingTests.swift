import Foundation
import Testing
import UbiquityControl

/// Beginning and ending a mount.
@Suite struct MountingTests {
    @Test func mountWithoutTheCloudIsUsableAndCatchesUp() async throws {
        try await World.run { world in
            try await world.blockCloud()
            let start = ContinuousClock.now
            let a = try await world.mounted("a")
            // Well under a second on an idle machine; the limit only shows that the mount did not wait for a network.
            #expect(ContinuousClock.now - start < .seconds(5))
            try await a.shell("mkdir d; echo text > d/f; cat d/f; ls -l; mv d e")
            let status = try await a.status()
            #expect(status.cloud.state != .online)
            #expect(status.uploads.items >= 2)
            #expect(try await a.attribute("is-uploaded", of: "e/f") == "0")
            let wait = try await a.ubiquity("wait", "", options: ["--uploaded", "--timeout", "1"])
            #expect(wait.status == 1)
            #expect(wait.err.contains("the cloud is unreachable"))
            world.unblockCloud()
            try await a.ubiquity("online", "")
            try await a.waitUntilIdle()
            let b = try await world.mounted("b")
            try await b.waitUntilIdle()
            #expect(try await b.shell("cat e/f") == "text")
        }
    }

    /// Its socket accepts connections, and sends no answer.
    @Test func mountIsUsableWhileTheCloudDoesNotAnswer() async throws {
        try await World.run { world in
            let b = try await world.mounted("b")
            try await b.waitUntilIdle()
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            let start = ContinuousClock.now
            let a = try await world.mounted("a")
            // The limit only shows that the mount did not wait for the cloud.
            #expect(ContinuousClock.now - start < .seconds(5))
            #expect(try await a.shell("mkdir d; echo text > d/f; mv d e; cat e/f; ls") == "text\ne")
            let status = try await a.status()
            #expect(status.cloud.state != .online && status.uploads.items >= 2)
            kill(cloud, SIGCONT)
            try await world.settle(a, b)
            #expect(try await b.shell("cat e/f") == "text")
        }
    }

    @Test func concurrentMountsShareOneCloud() async throws {
        try await World.run { world in
            let (a, b) = (try world.device("a"), try world.device("b"))
            async let first: Void = a.mount()
            async let second: Void = b.mount()
            _ = try await (first, second)
            try await a.shell("echo a > from-a")
            try await b.shell("echo b > from-b")
            try await world.settle(a, b)
            #expect(try await a.shell("cat from-*") == "a\nb")
            #expect(try await b.shell("cat from-*") == "a\nb")
            let found = try await world.attempt(["pgrep", "-fc", "--", "serve --embedded --data \(world.cloudData)"])
            #expect(found.text == "1")
            #expect(try await world.shell("stat -c %a '\(world.cloudData)/cloud.sock'") == "600")
            #expect(try await world.shell("stat -c %a '\(a.containerState)/control.sock'") == "600")
            #expect(try await world.shell("stat -c %a '\(a.containerState)'") == "700")
        }
    }

    @Test func unusedEmbeddedCloudEnds() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await a.unmount("--wait-uploaded")
            try await world.eventually("the cloud has ended", within: 60) { world.cloudProcess == nil }
            try await a.mount()
            try await a.waitUntilIdle()
            #expect(world.cloudProcess != nil)
        }
    }

    @Test func refusedMountNamesTheReasonAndChangesNothing() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await world.shell(
                "touch '\(world.folder)/file'; mkdir '\(world.folder)/full'; touch '\(world.folder)/full/x'")
            func refusal(_ arguments: [String], _ words: String) async throws {
                let outcome = try await world.attempt([World.program, "mount", "--state", a.state] + arguments)
                #expect(outcome.status == 1, "\(outcome)")
                #expect(outcome.err.contains(words), "\(outcome)")
                #expect(!outcome.err.isEmpty && outcome.err.split(separator: "\n").count <= 2, "\(outcome)")
                #expect(!FileManager.default.fileExists(atPath: a.state + "/local"))
            }
            try await refusal([world.folder + "/file"], "not a directory")
            try await refusal([world.folder + "/full"], "not empty")
            try await refusal([world.folder + "/missing"], "missing")
            for option in ["subtype=bar", "max_read=65536"] {
                try await world.shell("mkdir -p '\(a.mountPoint)'")
                try await refusal(["-o", "ro,\(option)", a.mountPoint], "set by the mount itself")
            }
            for name in ["a/b", ".."] {
                let outcome = try await world.attempt(
                    [World.program, "mount", "--state", a.state, "--container", name, a.mountPoint])
                #expect(outcome.status == 2 && outcome.err.contains("not \"\(name)\""), "\(outcome)")
                #expect(!FileManager.default.fileExists(atPath: a.state + "/local"))
            }
            #expect(try await world.shell("ls '\(world.folder)/full'") == "x")
        }
    }

    /// Options as in a mount table, or as listed for a mount.
    @Test func optionsOfMountTablesAreAccepted() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(["-o", "defaults,relatime,_netdev,noauto,user,x-systemd.automount,nodev,ro"])
            let options = try await world.shell("findmnt -no OPTIONS '\(a.mountPoint)'").split(separator: ",")
            #expect(options.contains("ro") && options.contains("nodev"), "\(options)")
        }
    }

    /// With so few the daemon could serve nothing, and would only fail later.
    @Test func tooFewOpenFilesAreRefused() async throws {
        try await World.run { world in
            let a = try world.device("a")
            let commands = [
                "mount --state '\(a.state)' '\(a.mountPoint)'",
                "serve --socket '\(world.folder)/s' --data '\(world.folder)/data'",
            ]
            for command in commands {
                let outcome = try await world.attempt(
                    ["sh", "-c", "ulimit -n 64; exec '\(World.program)' \(command)"])
                #expect(outcome.status == 1, "\(outcome)")
                #expect(outcome.err.contains("64 files") && outcome.err.contains("ulimit -Hn"), "\(outcome)")
            }
        }
    }

    @Test func stateInUseIsRefused() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let other = world.folder + "/other"
            try await world.shell("mkdir '\(other)'")
            let outcome = try await world.ubiquity("mount", "--state", a.state, other)
            #expect(outcome.status == 1)
            #expect(outcome.err.contains("mounted by process"))
            #expect(try await world.shell("ls -A '\(other)'").isEmpty)
            try await a.shell("echo still > works; cat works")
            // Another container of the same device may be mounted beside it.
            let second = try await world.ubiquity("mount", "--state", a.state, "--container", "work", other)
            #expect(second.status == 0, "\(second)")
            try await world.shell("echo work > '\(other)/f'; test ! -e '\(a.mountPoint)/f'")
            #expect(try await world.ubiquity("unmount", other).status == 0)
        }
    }

    @Test func indexOfANewerVersionIsLeftAlone() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await a.unmount()
            let index = a.containerState + "/index.db"
            try await world.shell("sqlite3 '\(index)' 'PRAGMA user_version = 9999; PRAGMA wal_checkpoint(TRUNCATE)'")
            let before = try await world.shell("sha256sum < '\(index)'; ls '\(a.containerState)/content'")
            let outcome = try await a.tryMount()
            #expect(outcome.status == 1)
            #expect(outcome.err.contains("newer version"))
            #expect(try await world.shell("sha256sum < '\(index)'; ls '\(a.containerState)/content'") == before)
            #expect(!a.isMounted)
        }
    }

    @Test func commandsDoNotHangWithADaemon() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let process = try #require(a.processID)
            try await a.ubiquity("offline", "")
            try await a.shell("mkdir d; echo text > d/f")
            // A command that has begun ends a while after its own limit.
            let wait = try world.start([World.program, "wait", "--uploaded", "--timeout", "2", a.mountPoint])
            // The command is connected to the daemon at two checks: its first request, whether the daemon answers, is
            // over.
            let connected = "awk '$6 == \"03\" && $8 ~ /control.sock$/ && index($8, \"\(a.state)\") { print $7 }' /proc/net/unix"
            var last = ""
            try await world.eventually("it waits") {
                let now = try await world.shell(connected)
                defer { last = now }
                return !now.isEmpty && now == last
            }
            kill(process, SIGSTOP)
            defer { kill(process, SIGCONT) }
            let (mount, item) = (a.mountPoint, a.mountPoint + "/d/f")
            let commands = [
                ["status"], ["status", item], ["evict", item], ["versions", item], ["offline", mount], ["unmount", mount],
            ]
            // In parallel: each times out by itself, and that takes a while.
            try await withThrowingTaskGroup { group in
                for command in commands {
                    group.addTask { (command, try await world.attempt(["timeout", "60", World.program] + command)) }
                }
                for try await (command, outcome) in group {
                    let isTold = outcome.err.contains("its daemon does not answer")
                    #expect(outcome.status == 3 && isTold, "\(command): \(outcome)")
                }
            }
            let waited = try await wait.finish(within: 60)
            #expect(waited.status == 3 && waited.err.contains("its daemon does not answer"), "\(waited)")
            let unmounted = try await world.attempt([World.program, "unmount", "--lazy", a.mountPoint])
            #expect(unmounted.status == 0 && !a.isMounted, "\(unmounted)")
        }
    }

    @Test func deadMountIsClearedByTheNext() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo acknowledged > d/f")
            try await a.kill()
            // The kernel needs a moment to remove the process; calls meanwhile are cancelled.
            try await world.eventually("the connection has ended") {
                try await world.attempt(["ls", a.mountPoint]).err.contains("Transport endpoint is not connected")
            }
            #expect(try await a.ubiquity("status", "").status == 3)
            try await a.mount()
            #expect(try await a.shell("cat d/f") == "acknowledged")
            try await a.waitUntilIdle()
            try await a.kill()
            let outcome = try await world.ubiquity("unmount", "--wait-uploaded", a.mountPoint)
            // Whether everything was uploaded is unknown.
            #expect(outcome.status == 1 && outcome.err.contains("died"), "\(outcome)")
            #expect(!a.isMounted)
        }
    }

    /// Panels and prompts ask it again and again, also at the moment of its end.
    @Test func clientsDuringShutdownDoNotCrashTheDaemon() async throws {
        try await World.run { world in
            let a = try world.device("a")
            let client = try world.start(
                [
                    "python3", "-c",
                    """
                    import os, socket, sys, threading, time
                    parent = os.getppid()
                    def ask():
                        while os.getppid() == parent:
                            try:
                                with socket.socket(socket.AF_UNIX) as s:
                                    s.connect(sys.argv[1])
                                    s.sendall(b'GET /v1/status HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
                            except OSError:
                                pass
                            # Its pace, for which nothing waits: without it the socket's queue would be full at once.
                            time.sleep(0.0005)
                    threading.Thread(target=ask).start()
                    ask()
                    """, a.containerState + "/control.sock",
                ])
            defer { client.signal(SIGKILL) }
            let rounds = 8
            for _ in 0..<rounds {
                try await a.mount()
                try await a.unmount()
                try await world.eventually("the daemon has ended") { a.processID == nil }
            }
            let log = try await world.shell("cat '\(a.log)'")
            #expect(!log.contains("Fatal error") && !log.contains("crashed"), "\(log.suffix(2000))")
            #expect(log.components(separatedBy: "unmounted and ended").count == rounds + 1)
        }
    }

    @Test(arguments: ["TERM", "INT"]) func signalEndsCleanly(_ signal: String) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            let process = try #require(a.processID)
            try await world.shell("kill -\(signal) \(process)")
            try await world.eventually("the daemon has ended") { a.processID == nil && !a.isMounted }
            #expect(try await world.shell("tail -n 1 '\(a.log)'").contains("ended"))
            try await a.mount()
            #expect(try await a.shell("cat f") == "text")
        }
    }

    @Test func foregroundMountRunsUntilAnInterrupt() async throws {
        try await World.run { world in
            let a = try world.device("a")
            let daemon = try world.start([World.program, "mount", "--state", a.state, "--foreground", a.mountPoint])
            try await world.eventually("mounted") { a.isMounted }
            try await a.shell("echo text > f")
            #expect(daemon.isRunning)
            daemon.signal(SIGINT)
            #expect(try await daemon.finish().status == 0)
            #expect(!a.isMounted)
        }
    }

    @Test func unmountReportsPendingChangesAndTheNextMountUploadsThem() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.settle(a, b)
            try await a.ubiquity("offline", "")
            try await a.shell("echo later > later.txt; mkdir folder")
            let outcome = try await a.unmount()
            #expect(outcome.err.contains("not uploaded yet: 2 items"), "\(outcome)")
            #expect(outcome.err.contains("later.txt"))
            #expect(outcome.err.contains("folder"))
            try await a.mount()
            try await world.settle(a, b)
            #expect(try await b.shell("cat later.txt; test -d folder") == "later")
            #expect(try await a.unmount().err.isEmpty)
        }
    }

    /// The kernel takes seconds for a mount with a million known files, and the daemon ends before.
    @Test func slowUnmountIsReported() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(environment: ["UBIQUITY_FAULT": "mount.unmounted:stall:1"])
            try await a.ubiquity("offline", "")
            try await a.shell("echo 1 > f")
            let outcome = try await world.ubiquity("unmount", a.mountPoint)
            #expect(outcome.status == 0 && outcome.err.contains("not uploaded yet: 1 item"), "\(outcome)")
            try await a.mount()
        }
    }

    @Test func unmountOfABusyMountIsRefusedUnlessLazy() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await world.shell("mkfifo '\(world.folder)/fifo'")
            let reader = try a.start("exec 3< f; cd /; echo ready; read line < '\(world.folder)/fifo'; cat <&3")
            try await world.eventually("the reader has it open") {
                reader.outputSoFar == "ready\n" || !reader.isRunning
            }
            let outcome = try await world.ubiquity("unmount", a.mountPoint)
            #expect(outcome.status == 1)
            #expect(outcome.err.contains("(process \(reader.processID)) has f open"), "\(outcome)")
            #expect(a.isMounted)
            reader.signal(SIGKILL)
            _ = try await reader.finish()
            let held = try a.start("exec sleep 100")
            try await world.eventually("the mount is busy") {
                try await world.shell("readlink /proc/\(held.processID)/cwd || true") == a.mountPoint
            }
            let refused = try await world.ubiquity("unmount", a.mountPoint)
            #expect(refused.err.contains("sleep (process \(held.processID)) is in it"), "\(refused)")
            #expect(try await world.ubiquity("unmount", "--lazy", a.mountPoint).status == 0)
            #expect(!a.isMounted)
        }
    }

    /// The command is no user of the mount that it unmounts, whatever its working folder and descriptors.
    @Test func unmountIgnoresItsOwnDescriptors() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            let beside = try await a.attempt("exec 8< f; '\(World.program)' unmount .")
            #expect(beside.status == 1 && beside.err.components(separatedBy: "(process").count == 2, "\(beside)")
            let within = try await a.attempt("exec 8< f; exec '\(World.program)' unmount .")
            #expect(within.status == 0, "\(within)")
            #expect(!a.isMounted)
        }
    }

    /// Neither has a visible descriptor, nor its working folder there.
    @Test func unmountNamesProgramsThatMapOrRunAFile() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("cp /bin/sleep nap; echo text > f")
            let running = try a.start("cd /; exec '\(a.mountPoint)/nap' 1000")
            let mapping = try a.start(
                """
                exec python3 -c '
                import mmap, os, signal
                file = os.open("f", os.O_RDONLY)
                view = mmap.mmap(file, 5, prot=mmap.PROT_READ)
                os.close(file)
                os.chdir("/")
                print("mapped", flush=True)
                signal.pause()'
                """)
            try await world.eventually("both use it") {
                let program = try await world.shell("readlink /proc/\(running.processID)/exe || true")
                return program == a.mountPoint + "/nap" && mapping.outputSoFar == "mapped\n"
            }
            let refused = try await world.ubiquity("unmount", a.mountPoint)
            #expect(refused.status == 1 && a.isMounted, "\(refused)")
            #expect(refused.err.contains("nap (process \(running.processID)) has nap open"), "\(refused)")
            #expect(refused.err.contains("(process \(mapping.processID)) has f open"), "\(refused)")
            for command in [running, mapping] {
                command.signal(SIGTERM)
                try await command.finish()
            }
            try await a.unmount()
        }
    }

    /// Programs that continue through the daemon's death and restart get errors. Every acknowledged operation is in the
    /// container and not in the folder beneath.
    @Test func nothingIsWrittenBeneathARestartedMount() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try """
                import os, sys, time
                for number in range(10**6):
                    try:
                        os.close(os.open(f"{sys.argv[1]}/{number}", os.O_CREAT | os.O_WRONLY))
                        print(number, flush=True)
                    except OSError: pass
                    time.sleep(0.002)
                """.write(toFile: world.folder + "/writer.py", atomically: true, encoding: .utf8)
            let writer = try world.start(["python3", world.folder + "/writer.py", a.mountPoint])
            for _ in 0..<5 {
                let before = writer.outputSoFar.count
                try await world.eventually("it writes") { writer.outputSoFar.count > before + 100 }
                try await a.kill()
                try await a.mount()
            }
            writer.signal(SIGTERM)
            try await writer.finish()
            let made = Set(writer.outputSoFar.split(separator: "\n").map(String.init))
            let found = Set(try await a.shell("ls").split(separator: "\n").map(String.init))
            #expect(made.subtracting(found).isEmpty)
            try await a.unmount()
            #expect(try await world.shell("ls -A '\(a.mountPoint)'") == "")
        }
    }

    /// By then another container may be mounted at the old place.
    @Test func movedMountIsUnmountedAtItsPlace() async throws {
        try await World.run { world in
            let program = World.program
            try await world.shell(
                """
                cd '\(world.folder)'
                mkdir -p p/m; '\(program)' mount --state s --container one p/m; mv p q; mkdir -p p/m
                '\(program)' mount --state s --container two p/m; echo 1 > q/m/f; echo 2 > p/m/f
                """)
            let unmounted = try await world.attempt([program, "unmount", world.folder + "/q/m"])
            let seen = try await world.shell("cd '\(world.folder)'; cat p/m/f; ls q/m | wc -l; mountpoint -q q/m || echo gone")
            try await world.shell("'\(program)' unmount '\(world.folder)/p/m'")
            #expect(unmounted.status == 0 && seen == "2\n0\ngone", "\(unmounted) \(seen)")
        }
    }

    /// The daemon must reach its own files without going through its mount.
    @Test func mountOverItsOwnDataIsRefused() async throws {
        try await World.run { world in
            let program = World.program
            let seen = try await world.shell(
                """
                cd '\(world.folder)'; mkdir -p m s; cd m; timeout 20 '\(program)' mount --state ../s . ; cd ..
                timeout 10 sh -c 'echo 1 > m/f; cat m/f'; timeout 20 '\(program)' unmount m; echo $?
                """)
            #expect(seen.hasPrefix("1\n") && seen.hasSuffix("0"), "\(seen)")
            for (state, cloud) in [("m/s", "c"), ("s", "m/c")] {
                let refused = try await world.attempt(
                    ["env", "UBIQUITY_CLOUD_DATA=\(world.folder)/\(cloud)", program, "mount", "--state",
                        "\(world.folder)/\(state)", world.folder + "/m"])
                #expect(refused.status == 1 && refused.err.contains("would hide its own data"), "\(refused)")
            }
            #expect(try await world.shell("ls -A '\(world.folder)/m' | wc -l") == "0")
        }
    }
}
