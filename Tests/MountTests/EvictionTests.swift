import Glibc
import Testing
import UbiquityControl

/// Eviction of contents, and its refusals.
@Suite struct EvictionTests {
    @Test func evictionKeepsAllButTheContent() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell(
                "head -c 1000000 /dev/urandom > f; setfattr -n user.k -v v f; chmod 640 f; sha256sum < f > '\(world.folder)/sum'"
            )
            try await a.waitUntilIdle()
            let look = "stat -c '%i %s %Y.%y %a' f; getfattr -n user.k --only-values f"
            let before = try await a.shell(look)
            let outcome = try await a.ubiquity("evict", "f")
            #expect(outcome.status == 0)
            #expect(outcome.out == "evicted \(a.mountPoint)/f\n")
            #expect(try await a.shell(look) == before)
            #expect(try await a.attribute("downloading-status", of: "f") == "not-downloaded")
            #expect(try await a.attribute("is-uploaded", of: "f") == "1")
            #expect(try await a.shell("stat -c %b f") == "1")
            #expect(try await world.shell("find '\(a.containerState)/content' -type f -size +0") == "", "the room is not given back")
            try await a.shell("sha256sum < f | cmp - '\(world.folder)/sum'")
            #expect(try await a.shell(look) == before)
            try await a.shell("setfattr -n user.ubiquity.evict -v 1 f")
            #expect(try await world.shell("find '\(a.containerState)/content' -type f -size +0") == "", "the room is not given back")
            // Evicting a placeholder does no harm.
            #expect(try await a.ubiquity("evict", "f").status == 0)
            #expect(try await a.ubiquity("evict", "f").status == 0)
        }
    }

    @Test func evictionRefusalsNameTheReason() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("for f in open dirty pinned free; do head -c 100000 /dev/urandom > $f; done")
            try await a.waitUntilIdle()
            let holder = try a.start("exec 3< open; echo ready; exec sleep 100")
            try await world.eventually("it is open") { holder.outputSoFar == "ready\n" }
            try await a.ubiquity("pin", "pinned")
            try await a.ubiquity("offline", "")
            try await a.shell("echo more >> dirty; echo new > new")
            try await a.waitFor("is-uploaded", "0", of: "dirty")
            try await a.waitFor("is-uploaded", "0", of: "new")
            for (name, errno, words) in [
                ("open", "Device or resource busy", "open"), ("dirty", "Device or resource busy", "not been uploaded"),
                ("pinned", "Operation not permitted", "pinned"), ("new", "No such attribute", "never uploaded"),
            ] {
                let set = try await a.attempt("setfattr -n user.ubiquity.evict -v 1 \(name)")
                let isRightErrno = set.err.contains(errno) || name == "new" && set.err.contains("No data available")
                #expect(isRightErrno, "\(name): \(set)")
                let command = try await a.ubiquity("evict", name)
                #expect(command.status == 1)
                #expect(command.err.contains(words), "\(name): \(command)")
                #expect(try await a.attribute("downloading-status", of: name) == "current")
            }
            #expect(try await a.ubiquity("evict", "free").status == 0)
        }
    }

    @Test func folderEvictionReportsEachItem() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell(
                "mkdir -p d/e; for f in d/1 d/2 d/e/3 d/e/4; do head -c 70000 /dev/urandom > $f; done; ln -s 1 d/l")
            try await a.waitUntilIdle()
            try await a.ubiquity("pin", "d/e/3")
            let outcome = try await a.ubiquity("evict", "d", options: ["--json"])
            #expect(outcome.status == 1)
            let results = try outcome.out.split(separator: "\n").map {
                try ControlCodec.decode(ItemResult.self, from: $0.utf8)
            }
            let done = Set(results.filter(\.done).map(\.path)), failed = results.filter { !$0.done }
            let folder = a.mountPoint + "/d"
            #expect(done.isSuperset(of: ["\(folder)/1", "\(folder)/2", "\(folder)/e/4"]))
            #expect(failed.map(\.path) == ["\(folder)/e/3"])
            #expect(failed.first?.error?.message.contains("pinned") == true)
            try await a.ubiquity("unpin", "d")
            #expect(try await a.ubiquity("evict", "d").status == 0)
            #expect(try await a.ubiquity("download", "d").status == 0)
            for file in ["d/1", "d/2", "d/e/3", "d/e/4"] {
                #expect(try await a.attribute("downloading-status", of: file) == "current")
            }
        }
    }

    @Test func pinnedFolderIsDownloadedAndKept() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; head -c 300000 /dev/urandom > d/1; head -c 300000 /dev/urandom > d/2")
            try await world.settle(a, b)
            #expect(try await b.ubiquity("pin", "d").status == 0)
            try await b.wait("--downloaded", "d")
            #expect(try await b.attribute("downloading-status", of: "d/1") == "current")
            #expect(try await b.attribute("is-pinned", of: "d/2") == "1")
            #expect(try await b.ubiquity("evict", "d").status == 1)
            try await b.killAndMount()
            #expect(try await b.attribute("is-pinned", of: "d/2") == "1")
            #expect(try await b.ubiquity("unpin", "d").status == 0)
            #expect(try await b.ubiquity("evict", "d").status == 0)
        }
    }

    /// A download without enough space does not begin: it would be evicted and downloaded again and again.
    @Test func pinningMoreThanTheDiskDownloadsOnlyFittingFiles() async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), b = try world.device("b")
            try await world.shell("mkdir '\(b.state)'; mount -t tmpfs -o mode=700,size=140m tmpfs '\(b.state)'")
            world.noteMounted(b.state)
            try await b.mount(["--disk-floor", "40M"])
            try await a.shell("head -c 500000 /dev/urandom > first; head -c 160M /dev/urandom > huge")
            try await a.shell("mkdir d; for n in $(seq 10); do head -c 20000000 /dev/urandom > d/$n; done; echo small > d/x")
            try await world.settle(a, b, within: 120)
            try await b.shell("cat first > /dev/null")
            // For a file that can never fit nothing is evicted, and nothing downloaded.
            let huge = try await b.received {
                try await b.ubiquity("pin", "huge")
                try await b.waitFor("downloading-error-code", "noSpace", of: "huge")
            }
            #expect(huge < 1_000_000)
            #expect(try await b.attribute("downloading-status", of: "first") == "current")
            // Three fit: 140 MB less the disk floor, the index and the log.
            let received = try await b.received {
                try await b.ubiquity("pin", "d")
                try await world.eventually("all that fits is here", within: 60) {
                    let states = try await b.shell(
                        """
                        for n in d/?*; do
                            getfattr --only-values -n user.ubiquity.downloading-status $n
                            getfattr --only-values -n user.ubiquity.downloading-error-code $n 2> /dev/null; echo
                        done
                        """
                    ).split(separator: "\n")
                    let refused = states.filter { $0 == "not-downloadednoSpace" }.count
                    return refused < 9 && states.filter { $0 == "current" }.count == states.count - refused
                }
                // Time for several retries.
                try await Task.sleep(for: .seconds(6))
            }
            #expect(received < 100_000_000)
            #expect(try await b.attribute("downloading-status", of: "d/x") == "current")
            // When there is space, the others are downloaded.
            try await b.ubiquity("unpin", "huge")
            try await a.shell("rm d/1 d/2 d/3 d/4 d/5 d/6 d/7")
            // The other device reports a lack of space until it has that change.
            try await world.settle(a, within: 60)
            try await world.eventually("the other contents are downloaded", within: 60) {
                let states = try await b.shell(
                    "for n in d/*; do getfattr --only-values -n user.ubiquity.downloading-status $n; done")
                return states == "currentcurrentcurrentcurrent"
            }
            try await world.shell("diff -r '\(a.mountPoint)/d' '\(b.mountPoint)/d'")
        }
    }

    /// A disk whose only reclaimable space is that of other contents.
    private func onSmallDisk(_ world: World, _ floor: String, _ script: String) async throws -> (a: Device, b: Device) {
        let a = try await world.mounted("a"), b = try world.device("b")
        try await world.shell("mkdir '\(b.state)'; mount -t tmpfs -o mode=700,size=150m tmpfs '\(b.state)'")
        world.noteMounted(b.state)
        try await b.mount(["--disk-floor", floor])
        try await a.shell(script)
        try await world.settle(a, b, within: 120)
        return (a, b)
    }

    /// Films that were read in part: a part of each is here, and none is whole.
    @Test func partialContentsAreEvictedForSpace() async throws {
        try await World.run { world in
            let (a, b) = try await onSmallDisk(
                world, "32M", "for n in 1 2 3; do head -c 60M /dev/urandom > $n; done; head -c 90M /dev/urandom > film")
            for name in ["1", "2", "3"] { try await b.shell("head -c 30M \(name) > /dev/null") }
            let sum = try await a.shell("sha256sum film")
            #expect(try await b.shell("sha256sum film", within: 60) == sum)
            // The same for a film that is downloaded as a whole, which needs space for all of it.
            try await b.ubiquity("evict", "film")
            for name in ["1", "2", "3"] { try await b.shell("head -c 30M \(name) > /dev/null") }
            try await b.ubiquity("download", "film")
            try await b.waitFor("downloading-status", "current", of: "film")
        }
    }

    /// A player reads slower than the network delivers: no read waits when the disk becomes full.
    @Test func readContentIsEvictedBehindAReader() async throws {
        try await World.run { world in
            let (_, b) = try await onSmallDisk(
                world, "32M", "head -c 80M /dev/urandom > kept; head -c 90M /dev/urandom > film")
            try await b.shell("cat kept > /dev/null")
            try await b.waitFor("downloading-status", "current", of: "kept")
            let player = try b.start("exec 3< film; head -c 10k <&3 > /dev/null; echo playing; exec sleep 100")
            try await world.eventually("it plays") { player.outputSoFar == "playing\n" }
            try await b.waitFor("downloading-status", "current", of: "film")
            player.signal(SIGKILL)
            _ = try await player.finish()
            #expect(try await b.attribute("downloading-status", of: "kept") == "not-downloaded")
        }
    }

    /// Each reader gets space for its reads, and none takes another's.
    @Test func manyReadersOnAFullDisk() async throws {
        try await World.run { world in
            let (a, b) = try await onSmallDisk(
                world, "32M",
                "for n in 1 2 3 4 5 6 7 8 9; do head -c 9M /dev/urandom > old$n; head -c 9M /dev/urandom > new$n; done")
            try await b.shell("cat old* > /dev/null")
            let sums = try await a.shell("sha256sum new*")
            let found = try await b.shell(
                "for n in 1 2 3 4 5 6 7 8 9; do sha256sum new$n & done | sort -k 2; wait", within: 60)
            #expect(found == sums)
        }
    }

    /// A small disk floor leaves less than programs need for new files: that much is freed too.
    @Test func smallDiskFloorKeepsSpaceForNewFiles() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await world.shell("mkdir '\(a.state)'; mount -t tmpfs -o mode=700,size=150m tmpfs '\(a.state)'")
            world.noteMounted(a.state)
            try await a.mount(["--disk-floor", "4M"])
            try await a.shell("for n in 1 2 3 4 5 6 7; do head -c 10M /dev/urandom > $n; done")
            try await a.wait("--uploaded", within: 60)
            // The next writes fill the disk, even if not all of them succeed.
            for round in 1...3 {
                _ = try await a.attempt("head -c 60M /dev/urandom > big\(round)")
                try await a.wait("--uploaded", within: 60)
                _ = try await a.attempt("for n in $(seq 120); do head -c 500k /dev/urandom > \(round)-$n || :; done")
                try await a.wait("--uploaded", within: 60)
            }
            try await world.eventually("a new file can be created") {
                try await a.attempt("echo new > new").status == 0
            }
        }
    }

    /// The kernel's pages do not replace the content: a later read downloads again, and a program that must not
    /// download is refused.
    @Test func evictionDropsCachedPages() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 300000 /dev/urandom > f; head -c 3000000 /dev/urandom > g")
            try await world.settle(a, b)
            for name in ["f", "g"] {
                try await b.shell("cat \(name) > /dev/null")
                try await b.waitUntilIdle()
                try await b.ubiquity("evict", name)
                let refused = try await b.attempt("'\(World.program)' run --no-materialize -- cat \(name)")
                #expect(refused.err.contains("Resource deadlock avoided"), "\(name): \(refused)")
                try await b.shell("cmp \(name) '\(a.mountPoint)/\(name)'")
                try await b.waitUntilIdle()
                #expect(try await b.attribute("downloading-status", of: name) == "current", "\(name)")
            }
        }
    }

    /// A waiting download of an evicted file ends with an error, and does not wait for ever.
    @Test func downloadOfAFileEvictedMeanwhileEnds() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in 1 2; do head -c 400000 /dev/urandom > $n; done")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            let download = try b.start("exec '\(World.program)' download 1 2")
            for name in ["1", "2"] {
                try await world.eventually("it is under way") { try await b.attribute("is-downloading", of: name) == "1" }
            }
            try await b.ubiquity("evict", "1", "2")
            kill(cloud, SIGCONT)
            let outcome = try await download.finish(within: 60)
            #expect(outcome.status == 1 && outcome.err.contains("evicted again"), "\(outcome)")
        }
    }

    /// A program that has a file open keeps its content until the close. Then the newer content is downloaded: the file
    /// was not evicted.
    @Test func downloadOfAnOpenFileWaitsForTheNewerContent() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo old > f")
            try await world.settle(a, b)
            #expect(try await b.shell("cat f") == "old")
            let holder = try b.start("exec 3<> f; echo open; exec sleep 600")
            try await world.eventually("it has it open") { holder.outputSoFar == "open\n" }
            try await a.shell("echo newer > f")
            try await a.waitUntilIdle()
            try await b.waitFor("downloading-status", "downloaded", of: "f")
            let download = try b.start("exec '\(World.program)' download f")
            holder.signal(SIGKILL)
            let outcome = try await download.finish(within: 60)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(try await b.shell("cat f") == "newer")
        }
    }

    @Test func offlineDownloadNamesTheReason() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo content > f")
            try await world.settle(a, b)
            try await b.ubiquity("offline", "")
            let refused = try await b.ubiquity("download", "f")
            #expect(refused.status == 3 && refused.err.contains("offline on request"), "\(refused)")
            #expect(try await b.attribute("downloading-error", of: "f").contains("offline on request"))
            #expect(try await b.status().pending.map(\.path) == ["f"])
            try await b.ubiquity("online", "")
            try await b.waitFor("downloading-status", "current", of: "f")
            #expect(try await b.attribute("downloading-error", of: "f") == "")
        }
    }

    /// The last use counts exactly, not the first one within some minutes.
    @Test func recentlyReadContentIsNotEvicted() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b", "--cache-limit", "1M"))
            try await a.shell("for n in 1 2 3 4; do head -c 300000 /dev/urandom > $n; done")
            try await world.settle(a, b)
            try await b.shell("for n in 1 2 3 1; do cat $n > /dev/null; sleep 0.02; done; cat 4 > /dev/null")
            try await b.waitUntilIdle()
            var states: [String] = []
            for name in ["1", "2", "3", "4"] {
                states.append(try await b.attribute("downloading-status", of: name))
            }
            #expect(states == ["current", "not-downloaded", "current", "current"])
        }
    }

    @Test func cacheLimitEvictsLeastRecentlyUsed() async throws {
        try await World.run { world in
            let a = try await world.mounted("a", "--cache-limit", "1M")
            try await a.shell("for n in 1 2 3 4 5 6; do head -c 400000 /dev/urandom > $n; sleep 0.02; done")
            try await a.waitUntilIdle()
            try await world.eventually("the cache is within its limit") {
                try await a.status().cachedBytes.map { $0 <= 1 << 20 } == true
            }
            #expect(try await a.attribute("downloading-status", of: "6") == "current")
            #expect(try await a.attribute("downloading-status", of: "1") == "not-downloaded")
            #expect(try await a.shell("cat 1 | wc -c") == "400000")
        }
    }

    /// However long ago it was used, and even if all evictable contents are not enough.
    @Test func cacheLimitSparesOpenContents() async throws {
        try await World.run { world in
            let a = try await world.mounted("a", "--cache-limit", "1M")
            let synced = ["pinned", "open", "dirty", "idle1", "idle2"]
            try await a.shell("mkfifo ../go; for n in \(synced.joined(separator: " ")); do head -c 200000 /dev/urandom > $n; done")
            let sum = try await a.shell("sha256sum < open")
            try await a.ubiquity("pin", "pinned")
            let reader = try a.start("exec 3< open; echo open; read -r line < ../go; exec sha256sum <&3")
            try await world.eventually("it is open") { reader.outputSoFar == "open\n" }
            try await a.waitUntilIdle()
            for name in synced { #expect(try await a.attribute("downloading-status", of: name) == "current", "\(name)") }
            try await a.ubiquity("offline", "")
            try await a.shell("head -c 400000 /dev/urandom > dirty; head -c 400000 /dev/urandom > new")
            for name in ["idle1", "idle2"] { try await a.waitFor("downloading-status", "not-downloaded", of: name) }
            for name in ["pinned", "open", "dirty", "new"] {
                #expect(try await a.attribute("downloading-status", of: name) == "current", "\(name)")
            }
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await reader.finish().text == "open\n\(sum)")
            #expect(try await a.shell("cat pinned dirty new | wc -c") == "1000000")
            #expect(try await a.attempt("cat idle1").err.contains("Network is unreachable"))
        }
    }

    /// The kernel reports a close, and the engine a finished download, a moment after the program continues.
    @Test func justReadContentCanBeEvicted() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for i in $(seq 60); do head -c 40000 /dev/urandom > f$i; done")
            try await world.settle(a, b)
            let late = try await b.shell(
                """
                exec python3 -c '
                import os
                late = []
                for i in range(1, 61):
                    name = "f%d" % i
                    with open(name, "rb") as f: f.read()
                    if os.getxattr(name, "user.ubiquity.downloading-status") != b"current": late.append(name)
                    try: os.setxattr(name, "user.ubiquity.evict", b"1")
                    except OSError as e: late.append("%s: %s" % (name, e))
                print(late)'
                """)
            #expect(late == "[]")
        }
    }
}
