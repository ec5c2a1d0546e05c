import Foundation
import Testing
import UbiquityControl

/// Items without their content on the device.
@Suite struct PlaceholderTests {
    /// Limit for the bytes of messages while no content is downloaded: the feed, heartbeats.
    private static let messages: Int64 = 60_000

    @Test func placeholderHasTheFilesMetadataAndUsesNoSpace() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                "head -c 5000001 /dev/urandom > f; touch -d '2020-01-02 03:04:05.5 UTC' f; chmod 640 f; : > empty")
            try await world.settle(a, b)
            #expect(try await b.shell("stat -c '%s %Y %a %F' f") == "5000001 1577934245 640 regular file")
            #expect(try await b.shell("stat -c '%b' f") == "1")
            #expect(try await b.shell("stat -c '%s %b' empty") == "0 0")
            #expect(try await b.shell("du -sk . | cut -f1").count == 1)
            #expect(try await world.shell("find '\(b.containerState)/content' -type f -size +0") == "")
            // The whole file counts as data: programs that copy sparsely must not see a hole.
            try await b.python(
                """
                fd = os.open('f', os.O_RDONLY | os.O_NONBLOCK)
                assert os.lseek(fd, 0, os.SEEK_DATA) == 0
                assert os.lseek(fd, 0, os.SEEK_HOLE) == 5000001
                """)
        }
    }

    /// Thumbnailers, indexers and backups, and their child processes, get an error and no download; a user's grep
    /// downloads.
    @Test func backgroundProgramsDownloadNothing() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; echo needle > d/x; chmod +x d/x; : > d/empty")
            try await world.settle(a, b)
            let folder = world.folder
            try await world.shell("cp /bin/cat '\(folder)/tumblerd'; cp /bin/sh '\(folder)/tracker-miner-fs-3'")
            // The search for its interpreter does not change the script's name.
            try await world.shell(
                """
                printf '#!/usr/bin/env python3\\nimport sys\\nprint(open(sys.argv[1]).read())\\n' > '\(folder)/duplicity'
                chmod +x '\(folder)/duplicity'
                """)
            for command in [
                "'\(folder)/tumblerd' d/x", "'\(folder)/tracker-miner-fs-3' -c 'cat d/x; exit $?'",
                "'\(World.program)' run --no-materialize -- cat d/x",
                "'\(World.program)' run --no-materialize -- sh -c 'env -i cat d/x; exit $?'",
                "'\(World.program)' run --no-materialize -- env -i cat d/x", "'\(folder)/duplicity' d/x",
            ] {
                let outcome = try await b.attempt(command)
                #expect(outcome.status == 1 && outcome.err.contains("Resource deadlock avoided"), "\(command): \(outcome)")
            }
            let write = try await b.attempt("'\(World.program)' run --no-materialize -- sh -c 'echo more >> d/x'")
            #expect(write.status != 0)
            let cut = try await b.attempt(
                "'\(World.program)' run --no-materialize -- python3 -c 'import os; os.truncate(\"d/x\", 3)'")
            #expect(cut.status == 1 && cut.err.contains("Resource deadlock avoided"), "\(cut)")
            let program = try await b.attempt("'\(World.program)' run --no-materialize -- ./d/x")
            #expect(program.status == 126 && program.err.contains("Resource deadlock avoided"), "\(program)")
            #expect(try await b.attribute("downloading-status", of: "d/x") == "not-downloaded")
            #expect(try await b.shell("'\(World.program)' run --no-materialize -- stat -c %s d/x") == "7")
            #expect(try await b.shell("sh -c 'grep -r needle d # as borg'") == "d/x:needle")
            // A downloaded file is like any other.
            #expect(try await b.shell("'\(folder)/tumblerd' d/x; '\(World.program)' run --no-materialize -- cat d/x") == "needle\nneedle")
        }
    }

    /// The answer comes at once, even if another program has claimed the file.
    @Test func configuredProgramsDownloadNothing() async throws {
        try await World.run { world in
            let folder = world.folder
            try await world.shell(
                """
                cd '\(folder)'; mkdir -p .config/ubiquity; mkfifo go; cp /bin/cat mycat; cp /bin/cat tumblerd
                printf 'no-materialize = mycat\\nno-materialize = !tumblerd\\n' > .config/ubiquity/config
                """)
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > x; echo 2 > y")
            try await world.settle(a, b)
            #expect(try await b.shell("'\(folder)/tumblerd' y") == "2")
            let refused = try await b.attempt("'\(folder)/mycat' x")
            #expect(refused.status == 1 && refused.err.contains("Resource deadlock avoided"), "\(refused)")
            let claim = try b.start("'\(World.program)' coordinate write x -- sh -c 'echo in; read -r line < ../go'")
            try await world.eventually("it is claimed") { claim.outputSoFar == "in\n" }
            let start = ContinuousClock.now
            let again = try await b.attempt("'\(folder)/mycat' x", within: 20)
            #expect(again.status == 1 && again.err.contains("Resource deadlock avoided"), "\(again)")
            #expect(ContinuousClock.now - start < .seconds(5))
            #expect(claim.isRunning)
            #expect(try await b.attribute("downloading-status", of: "x") == "not-downloaded")
            try await world.shell("echo > '\(folder)/go'")
            #expect(try await claim.finish().status == 0)
        }
    }

    /// A command gets the same signals as without the wrapper: none is blocked or ignored, and all reach it.
    @Test(arguments: ["run --no-materialize", "coordinate read d/x"]) func wrappedCommandsGetTheirSignals(how: String) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo needle > d/x")
            let command = "'\(World.program)' \(how) --"
            let look = "grep -E 'SigBlk|SigIgn' /proc/self/status"
            for before in [":", "trap '' HUP", "trap '' INT"] {
                let signals = try await a.shell("\(before); \(command) \(look); \(look)")
                let lines = signals.split(separator: "\n")
                #expect(lines.count == 4 && lines.prefix(2) == lines.suffix(2), "\(before): \(signals)")
            }
            #expect(try await a.shell("\(command) sh -c 'sleep 0.1 & wait; echo done'") == "done")
            let ended = try await a.attempt("\(command) sh -c 'trap \"exit 7\" TERM; kill -TERM $PPID; while :; do sleep 0.1; done'")
            #expect(ended.status == 7, "\(ended)")
        }
    }

    /// O_NONBLOCK means nothing on a regular file, as on a disk.
    @Test func nonBlockingReadsWaitForTheContent() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; echo needle > d/x; head -c 2000000 /dev/urandom > d/y; head -c 9000000 /dev/urandom > z")
            try await world.settle(a, b)
            #expect(try await b.shell("grep -r needle d") == "d/x:needle")
            try await b.ubiquity("evict", "d")
            let sums = try await a.shell("cat d/x d/y | sha256sum")
            #expect(try await b.shell("tar -cf - d | tar -xOf - d/x d/y | sha256sum") == sums)
            try await b.python("assert len(os.pread(os.open('z', os.O_RDONLY | os.O_NONBLOCK), 10, 8999000)) == 10")
            try await a.shell("printf text | xz > x.xz")
            try await world.settle(a, b)
            #expect(try await b.shell("xz -dc x.xz") == "text")
        }
    }

    @Test func concurrentReadersShareOneDownload() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 6000000 /dev/urandom > f")
            try await world.settle(a, b)
            let sum = try await a.shell("sha256sum < f")
            #expect(try await b.attribute("downloading-status", of: "f") == "not-downloaded")
            let received = try await b.received {
                let sums = try await b.shell("for n in 1 2 3 4; do sha256sum < f & done; wait")
                #expect(sums == Array(repeating: sum, count: 4).joined(separator: "\n"))
            }
            #expect(received >= 6_000_000 && received < 8_000_000)
            try await b.waitFor("downloading-status", "current", of: "f")
            #expect(try await b.received { try await b.shell("cat f > /dev/null") } < Self.messages)
            #expect(try await b.shell("test $(stat -c %b f) -gt 1000") == "")
        }
    }

    @Test func readDownloadsOnlyItsChunks() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            // While the file is open, the remaining content is downloaded too: the close takes some time, and longer on
            // a busy machine.
            try await a.shell("head -c 120000000 /dev/urandom > f")
            try await world.settle(a, b, within: 120)
            let wanted = try await a.shell("tail -c 1000 f | sha256sum")
            var read = ""
            let received = try await b.received { read = try await b.shell("tail -c 1000 f | sha256sum") }
            #expect(read == wanted)
            #expect(received < 100_000_000)
            #expect(try await b.attribute("downloading-status", of: "f") == "not-downloaded")
            #expect(try await b.shell("sha256sum < f") == (try await a.shell("sha256sum < f")))
        }
    }

    @Test func metadataCallsNeverDownloadAndWorkOffline() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; for n in 1 2 3 4; do head -c 100000 /dev/urandom > d/$n; done; ln -s d/1 l")
            try await world.settle(a, b)
            try await b.ubiquity("offline", "")
            let received = try await b.received {
                try await b.shell(
                    """
                    stat d/1; ls -lR; readlink l; getfattr -d d/2; find . -type f -size +1k; test -r d/1
                    mv d/1 moved; rm d/2; chmod 600 d/3; touch -d 2010-01-01 d/3; setfattr -n user.k -v v d/3
                    mv d e; mkdir new; ln -s e/3 m
                    """)
            }
            #expect(received < Self.messages)
            #expect(try await b.attribute("downloading-status", of: "e/3") == "not-downloaded")
            try await b.ubiquity("online", "")
            try await world.settle(b, a)
            expectSame(
                [
                    try await Tools.picture(of: a.mountPoint, in: world),
                    try await Tools.picture(of: b.mountPoint, in: world),
                ], "after being offline")
        }
    }

    @Test func replacingDownloadsNothing() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in 1 2 3 4; do head -c 400000 /dev/urandom > $n; done")
            try await world.settle(a, b)
            let received = try await b.received {
                try await b.shell("echo truncated > 1; echo other > x; mv x 2; rm 4")
                try await b.python("os.truncate('3', 0)")
            }
            #expect(received < Self.messages)
            try await world.settle(b, a)
            #expect(try await a.shell("cat 1 2; stat -c %s 3; test ! -e 4") == "truncated\nother\n0")
        }
    }

    /// touch(1) and truncate(1) open for writing, with O_NONBLOCK, and write nothing.
    @Test func touchingAndEmptyingDownloadNothing() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in 1 2 3; do head -c 400000 /dev/urandom > $n; done; sha256sum 1 3 > sums")
            try await world.settle(a, b)
            try await b.ubiquity("offline", "")
            try await b.shell("touch -d '2021-02-03 04:05:06 UTC' 1; touch 3; truncate -s 0 2; truncate -s 10 2")
            #expect(try await b.shell("stat -c '%s %Y' 1; stat -c '%s %b' 2") == "400000 1612325106\n10 0")
            #expect(try await b.attribute("downloading-status", of: "1") == "not-downloaded")
            try await b.ubiquity("online", "")
            let received = try await b.received { try await world.settle(b, a) }
            #expect(received < Self.messages)
            #expect(try await a.shell("stat -c '%s %Y' 1; stat -c '%s' 2") == "400000 1612325106\n10")
            #expect(try await b.shell("sha256sum --quiet -c sums") == "")
        }
    }

    /// The open returns at once; calls that need the content wait for it.
    @Test func nonBlockingWritesWaitForTheContent() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 9000000 /dev/urandom > f; cp f g")
            try await world.settle(a, b)
            try await b.python(
                """
                fd = os.open('f', os.O_RDWR | os.O_NONBLOCK)
                assert os.fstat(fd).st_size == 9000000
                os.pwrite(fd, b'XYZ', 8999000)
                assert os.pread(fd, 4, 8999000)[:3] == b'XYZ'
                os.ftruncate(fd, 8999500)
                os.posix_fallocate(fd, 8999400, 600)
                os.close(fd)
                """)
            try await world.settle(b, a)
            try await world.shell(
                """
                cd '\(world.folder)'
                cmp a/f b/f; cmp -n 8999000 a/f a/g; test $(stat -c %s a/f) = 9000000
                test "$(tail -c +8999001 a/f | head -c 3)" = XYZ; test $(tail -c 500 a/f | tr -d '\\000' | wc -c) = 0
                """)
        }
    }

    @Test func writeIntoAPlaceholderKeepsTheOtherBytes() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 3000000 /dev/urandom > f; cp f g; cp f h; cp f '\(world.folder)/expected'")
            try await world.settle(a, b)
            try await b.shell(
                "echo appended >> f; printf XYZ | dd of=g bs=1 seek=1500000 conv=notrunc status=none; truncate -s 2000000 h"
            )
            try await world.settle(b, a)
            try await world.shell(
                """
                cd '\(world.folder)'
                { cat expected; echo appended; } | cmp - a/f
                head -c 2000000 expected | cmp - a/h
                printf XYZ | dd of=expected bs=1 seek=1500000 conv=notrunc status=none
                cmp expected a/g; cmp a/g b/g; cmp a/f b/f; cmp a/h b/h
                """)
        }
    }

    /// To another file system mv(1) copies, and then removes the original.
    @Test func moveOutOfTheMountDownloads() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                """
                mkdir -p d/e; for n in f d/f d/e/g; do head -c 2000000 /dev/urandom > $n; done; echo small > d/h
                cp -r . ../expected; mkdir ../outside
                """)
            try await world.settle(a, b)
            let files = ["f", "d/f", "d/e/g", "d/h"]
            try await b.ubiquity("offline", "")
            for name in ["f", "d"] {
                let refused = try await b.attempt("mv \(name) ../outside")
                #expect(refused.status == 1 && refused.err.contains("Network is unreachable"), "\(refused)")
            }
            #expect(try await world.shell("find '\(world.folder)/outside' -type f") == "")
            #expect(try await b.shell("stat -c %s \(files.joined(separator: " "))") == "2000000\n2000000\n2000000\n6")
            for name in files { #expect(try await b.attribute("downloading-status", of: name) == "not-downloaded", "\(name)") }
            try await b.ubiquity("online", "")
            try await b.waitUntilIdle()
            try await b.shell("rm -rf ../outside/*; mv f d ../outside")
            try await world.shell("diff -r '\(world.folder)/expected' '\(world.folder)/outside'")
            try await world.settle(b, a)
            #expect(try await a.shell("ls") == "")
        }
    }

    @Test func lazyUpdatesDownloadedFilesAndEagerAll() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let c = try await world.mounted("c", "--policy", "eager")
            try await a.shell("head -c 300000 /dev/urandom > read; head -c 300000 /dev/urandom > unread")
            try await world.settle(a, b, c)
            try await c.waitFor("downloading-status", "current", of: "unread")
            #expect(try await b.attribute("downloading-status", of: "unread") == "not-downloaded")
            try await b.shell("cat read > /dev/null")
            try await b.waitFor("downloading-status", "current", of: "read")
            try await a.shell("head -c 300000 /dev/urandom > read; head -c 300000 /dev/urandom > unread")
            try await world.settle(a, b)
            let version = try await a.attribute("version-id", of: "read")
            try await b.waitFor("version-id", version, of: "read")
            try await b.waitFor("downloading-status", "current", of: "read")
            #expect(try await b.attribute("downloading-status", of: "unread") == "not-downloaded")
            try await b.ubiquity("offline", "")
            #expect(try await b.shell("sha256sum < read") == (try await a.shell("sha256sum < read")))
        }
    }

    @Test func offlineReadsFailAndWritesQueue() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 200000 /dev/urandom > f; echo here > here")
            try await world.settle(a, b)
            try await b.shell("cat here")
            #expect(try await b.ubiquity("offline", "").status == 0)
            let read = try await b.attempt("cat f")
            #expect(read.err.contains("Network is unreachable"), "\(read)")
            try await b.waitUntil("getfattr --only-values -n user.ubiquity.downloading-error f | grep -q offline")
            #expect(try await b.shell("cat here; echo queued > queued; cat queued") == "here\nqueued")
            let status = try await b.status()
            #expect(status.cloud.state == .offline)
            #expect(status.cloud.reason?.isEmpty == false)
            #expect(status.pending.contains { $0.path == "queued" && $0.direction == .upload })
            #expect(try await b.attribute("is-uploaded", of: "queued") == "0")
            try await b.killAndMount()
            try await b.waitUntilIdle()
            #expect(try await b.ubiquity("online", "").status == 0)
            try await world.settle(b, a)
            #expect(try await a.shell("cat queued") == "queued")
            try await b.shell("cmp f '\(a.mountPoint)/f'")
            #expect(try await b.attribute("downloading-error", of: "f") == "")
        }
    }

    /// For a file of many chunks the open requests their list, which may take as long as the network does.
    @Test func openWaitingForTheCloudIsInterrupted() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 4000000 /dev/urandom > f")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            for signal in [SIGINT, SIGKILL] {
                let cat = try b.start("exec cat f")
                try await world.eventually("it opens") { try cat.isOpening("f") }
                let start = ContinuousClock.now
                cat.signal(signal)
                try await cat.finish(within: 60)
                // The network's own limit is 15 s.
                #expect(ContinuousClock.now - start < .seconds(5))
            }
            kill(cloud, SIGCONT)
            try await b.shell("cmp f '\(a.mountPoint)/f'")
        }
    }

    @Test("MP-10: an open of an item removed meanwhile ends, with one deletion event")
    func openOfAnItemRemovedMeanwhileEnds() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let cloud = try #require(world.cloudProcess)
            defer { kill(cloud, SIGCONT) }
            // On a busy machine the readers may reach the network's own limit, 15 s, before their files are removed.
            for attempt in 1...4 {
                let names = (large: "large\(attempt)", small: "small\(attempt)")
                try await a.shell(
                    "head -c 4000000 /dev/urandom > \(names.large); head -c 200000 /dev/urandom > \(names.small)")
                try await world.settle(a, b)
                let watcher = try await Watcher.start(a)
                kill(cloud, SIGSTOP)
                let (large, small) = (try b.start("exec cat \(names.large)"), try b.start("exec cat \(names.small)"))
                // One waits for the list of its chunks, the other for its content.
                try await world.eventually("it opens") { (try? large.isOpening(names.large)) ?? true }
                try await world.eventually("it downloads") {
                    try await b.attribute("is-downloading", of: names.small) == "1" || !small.isRunning
                }
                try await b.shell("rm large* small*; test ! -e \(names.large) -a ! -e \(names.small)")
                // They end while the cloud is silent.
                let outcomes = [try await large.finish(within: 60), try await small.finish(within: 60)]
                kill(cloud, SIGCONT)
                try await world.settle(b, a)
                let isLate = outcomes.contains { $0.err.contains("timed out") }
                guard !isLate || attempt == 4 else { continue }
                for outcome in outcomes {
                    #expect(outcome.status == 1 && outcome.err.contains("No such file"), "\(outcome)")
                }
                try await watcher.waitFor("DELETE ./\(names.large)", "DELETE ./\(names.small)")
                #expect(watcher.count("DELETE ./\(names.large)") == 1, "\(watcher.lines)")
                #expect(try await a.shell("ls -A") == "")
                break
            }
        }
    }

    /// For a file with a running download the open does not wait, and each read does.
    @Test func waitingReadIsInterrupted() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 60000000 /dev/urandom > f")
            try await world.settle(a, b, within: 120)
            try await b.shell("head -c 10 f > /dev/null")
            try await b.waitUntilIdle()
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            for (program, signal) in [
                ("tail -c 10 f", SIGINT), ("cp f g", SIGTERM), ("truncate -s 50000000 f", SIGKILL),
                ("dd if=f iflag=direct bs=4096 skip=14000 count=1", SIGINT),
            ] {
                var command = try b.start("exec \(program)")
                // A program that reads local content is not seen in that call so often in succession.
                var looks = 0
                try await world.eventually("it waits: \(program)") {
                    // The network's limit may end the call: the program before it had waited for the same download.
                    if !command.isRunning { command = try b.start("exec \(program)") }
                    looks = command.isUsing("f") ? looks + 1 : 0
                    return looks == 5
                }
                let start = ContinuousClock.now
                command.signal(signal)
                let outcome = try await command.finish(within: 60)
                #expect(outcome.status == 128 + signal, "\(program): \(outcome)")
                // The network's own limit is 15 s.
                #expect(ContinuousClock.now - start < .seconds(5), "\(program)")
            }
            kill(cloud, SIGCONT)
            try await b.shell("cmp f '\(a.mountPoint)/f'")
        }
    }

    /// A program that handles the signal waits for a small file in its open, and gets the interrupt there.
    @Test func handledSignalInterruptsAnOpenOfASmallFile() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            for (name, size) in [("tiny", 10), ("small", 200_000), ("half", 500_000)] {
                try await a.shell("head -c \(size) /dev/urandom > \(name)")
                try await world.settle(a, b)
                let cloud = try #require(world.cloudProcess)
                kill(cloud, SIGSTOP)
                defer { kill(cloud, SIGCONT) }
                let reader = try b.start(
                    """
                    exec python3 -c "
                    try: open('\(name)', 'rb').read()
                    except KeyboardInterrupt: print('interrupted')"
                    """)
                try await world.eventually("it opens") { try reader.isOpening(name) }
                let start = ContinuousClock.now
                reader.signal(SIGINT)
                #expect(try await reader.finish(within: 60).text == "interrupted")
                // The network's own limit is 15 s.
                #expect(ContinuousClock.now - start < .seconds(10))
            }
        }
    }

    /// It has nothing open yet, and its working folder is elsewhere: only the mount knows it.
    @Test func unmountNamesProgramsWaitingInAnOpen() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 4000000 /dev/urandom > f")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            let path = b.mountPoint + "/f"
            let cat = try world.start(["/bin/cat", path])
            try await world.eventually("it opens") { try cat.isOpening(path) }
            let refused = try await b.ubiquity("unmount", "")
            #expect(refused.status == 1 && refused.err.contains("cat (process \(cat.processID)) waits"), "\(refused)")
            kill(cloud, SIGCONT)
            #expect(try await cat.finish().status == 0)
            #expect(try await b.ubiquity("unmount", "").status == 0)
        }
    }

    /// The kernel does not report a signal that came while the request was still on its way to a queue.
    @Test func openIsInterruptedBeforeItArrives() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 4000000 /dev/urandom > f")
            try await world.settle(a, b)
            // Only with io_uring: over the device the kernel reports the signal, and cancels a request that the daemon
            // has not read.
            guard try await b.status().rings?.isActive == true else { return }
            try await b.shell("mkfifo '\(world.folder)/go'; stat f")
            let (cloud, daemon) = (try #require(world.cloudProcess), try #require(b.processID))
            for signal in [SIGINT, SIGKILL] {
                let cat = try b.start("echo in; read -r line < '\(world.folder)/go'; exec cat f")
                try await world.eventually("it has begun") { cat.outputSoFar == "in\n" }
                kill(cloud, SIGSTOP)
                kill(daemon, SIGSTOP)
                defer { for process in [daemon, cloud] { kill(process, SIGCONT) } }
                try await world.shell("echo > '\(world.folder)/go'")
                try await world.eventually("it opens") { try cat.isOpening("f") }
                cat.signal(signal)
                // The program sleeps on, and another signal cannot wake it.
                try await world.eventually("it has the signal") {
                    try String(contentsOfFile: "/proc/\(cat.processID)/stat", encoding: .utf8).contains(") D ")
                }
                kill(daemon, SIGCONT)
                let start = ContinuousClock.now
                try await cat.finish(within: 60)
                // The network's own limit is 15 s.
                #expect(ContinuousClock.now - start < .seconds(10))
            }
            try await b.shell("cmp f '\(a.mountPoint)/f'")
        }
    }

    /// A signal that the program ignores or handles harmlessly interrupts no open, as on a local disk; a fatal one does.
    @Test func harmlessSignalInterruptsNoOpen() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 4000000 /dev/urandom > f; cp f g; cp f h")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            let handling = try b.start(
                "exec python3 -c \"import signal; signal.signal(10, print); print(len(open('f', 'rb').read()))\"")
            let (stopped, ended) = (try b.start("exec cat g | wc -c"), try b.start("exec cat h"))
            try await world.eventually("they open") { try handling.isOpening("f") && ended.isOpening("h") }
            handling.signal(SIGUSR1)
            ended.signal(SIGWINCH)
            for command in [stopped, ended] {
                command.signal(SIGTSTP)
                command.signal(SIGCONT)
            }
            ended.signal(SIGINT)
            let start = ContinuousClock.now
            #expect(try await ended.finish(within: 60).status == 128 + SIGINT)
            // The network's own limit is 15 s.
            #expect(ContinuousClock.now - start < .seconds(10))
            kill(cloud, SIGCONT)
            #expect(try await handling.finish(within: 60).text.hasSuffix("4000000"))
            #expect(try await stopped.finish(within: 60).text == "4000000")
        }
    }
}
