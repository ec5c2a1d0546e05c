import Foundation
import Glibc
import Testing
import UbiquityControl

/// Deaths of daemons and clouds, full disks, damage.
@Suite struct FaultTests {
    @Test func nothingAcknowledgedIsLostByAKillAfterClose() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo old > kept; echo old > replaced; mkdir d; echo x > d/x; echo gone > gone")
            try await world.settle(a, b)
            try await a.shell(
                """
                echo new > new; echo newer > kept; echo other > t; mv t replaced; mv d e; rm gone; ln -s e l
                chmod 600 kept; setfattr -n user.k -v v kept; head -c 500000 /dev/urandom > big; touch -d '2001-01-01 UTC' e
                """)
            try await a.kill()
            let expected = "new\nnewer\nother\nx\ne\n600\nv\n500000\n978307200"
            let look =
                "cat new kept replaced e/x; readlink l; stat -c %a kept; getfattr -n user.k --only-values kept; echo; "
                + "stat -c %s big; stat -c %Y e; test ! -e gone; test ! -e d"
            try await a.mount()
            let found = try await a.shell(look)
            #expect(found == expected)
            try await world.settle(a, b)
            #expect(try await b.shell(look) == found)
            try await b.shell("cmp big '\(a.mountPoint)/big'")
        }
    }

    /// The backup has an edit that was uploaded long ago, and not the later one.
    @Test func stateRestoredFromABackupOverwritesNothing() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo base > f")
            try await world.settle(a, b)
            try await a.ubiquity("offline", "")
            try await a.shell("echo older > f")
            try await a.unmount()
            try await world.shell("cp -a '\(a.state)' '\(a.state).backup'")
            try await a.mount()
            try await world.settle(a, b)
            try await a.shell("echo newer > f")
            try await world.settle(a, b)
            try await a.unmount()
            try await world.shell("rm -r '\(a.state)'; mv '\(a.state).backup' '\(a.state)'")
            try await a.mount()
            try await world.settle(a, b)
            for device in [a, b] {
                #expect(try await device.shell("cat f") == "newer")
                let count = try await device.shell("getfattr -n user.ubiquity.conflict-count --only-values f")
                #expect(count == "1")
                #expect(try await device.shell("cat .versions/f/*").contains("older"))
            }
        }
    }

    @Test func writesOfAnOpenFileSurviveAKill() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo start > f")
            try await world.settle(a, b)
            let writer = try a.start(
                "exec 3>> f; echo more >&3; echo fresh > g; exec 4>> g; echo line >&4; echo ready; exec sleep 100")
            try await world.eventually("it has written") { writer.outputSoFar == "ready\n" }
            try await a.kill()
            writer.signal(SIGKILL)
            try await a.mount()
            #expect(try await a.shell("cat f g") == "start\nmore\nfresh\nline")
            try await world.settle(a, b)
            #expect(try await b.shell("cat f g") == "start\nmore\nfresh\nline")
        }
    }

    /// Without the daemon nothing would limit its time.
    @Test func mergeCommandEndsWithTheDaemon() async throws {
        try await World.run { world in
            try await world.shell(
                """
                cd "$HOME"; mkdir -p .config/ubiquity
                echo 'merge.txt = sh "$HOME/merge"' > .config/ubiquity/config
                echo 'sleep 1000 & echo $$ $! > "$HOME/begun.new"; mv "$HOME/begun.new" "$HOME/begun"; wait' > merge
                """)
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > f.txt")
            try await world.settle(a, b)
            for device in [a, b] { try await device.ubiquity("offline", "") }
            try await a.shell("echo 2 > f.txt")
            try await b.shell("echo 3 > f.txt")
            for device in [b, a] { try await device.ubiquity("online", "") }
            try await world.eventually("it runs") { try await world.shell("ls \"$HOME\"").contains("begun") }
            try await a.kill()
            try await world.eventually("all of it has ended") {
                // A process that nobody reaps is a zombie.
                try await world.shell(
                    "for p in $(cat \"$HOME/begun\"); do grep -v -s '(sh) Z\\|(sleep) Z' /proc/$p/stat || :; done").isEmpty
            }
            try await a.mount()
        }
    }

    @Test func uploadResumesAfterAKill() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.settle(a, b)
            try await a.shell("head -c 60000000 /dev/urandom > f; for n in $(seq 200); do echo $n > small$n; done")
            for _ in 0..<3 {
                try await world.eventually("an upload begins") {
                    let status = try await a.status()
                    return status.bytesSent > 2_000_000 || status.uploads.items == 0
                }
                try await a.killAndMount()
            }
            try await world.settle(a, b, within: 120)
            #expect(try await b.shell("ls | wc -l; cat small* | sort -n | tail -n 1") == "201\n200")
            try await b.shell("cmp f '\(a.mountPoint)/f'", within: 120)
        }
    }

    @Test func downloadResumesAfterAKill() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 60000000 /dev/urandom > f")
            try await world.settle(a, b, within: 120)
            for _ in 0..<2 {
                let reader = try b.start("cat f > /dev/null")
                try await world.eventually("a download begins") {
                    try await b.status().bytesReceived > 8_000_000 || !reader.isRunning
                }
                try await b.kill()
                try await reader.finish()
                try await b.mount()
            }
            #expect(try await b.attribute("is-uploaded", of: "f") == "1")
            let rest = try await b.received { try await b.shell("cmp f '\(a.mountPoint)/f'", within: 120) }
            // Parts downloaded before the kills are used.
            #expect(rest < 58_000_000)
            try await b.waitFor("downloading-status", "current", of: "f")
        }
    }

    @Test func transfersSurviveACloudRestart() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.settle(a, b)
            try await a.shell("head -c 40000000 /dev/urandom > f; for n in $(seq 50); do echo $n > small$n; done")
            for step in 1...2 {
                try await world.eventually("an upload begins") {
                    let status = try await a.status()
                    return status.bytesSent > Int64(step) * 3_000_000 || status.uploads.items == 0
                }
                try await world.killCloud()
            }
            try await world.settle(a, b, within: 120)
            let reader = try b.start("cat f | sha256sum")
            try await world.eventually("a download begins") {
                try await b.status().bytesReceived > 5_000_000 || !reader.isRunning
            }
            try await world.killCloud()
            // The reader may get an error that the cloud is away; it must not get wrong bytes.
            let outcome = try await reader.finish(within: 120)
            let sum = try await a.shell("sha256sum < f")
            #expect(outcome.text == sum || !outcome.err.isEmpty)
            try await b.waitUntil("cat f > /dev/null", within: 120)
            #expect(try await b.shell("sha256sum < f", within: 120) == sum)
            #expect(try await b.shell("ls | wc -l") == "51")
        }
    }

    /// Puts the device's state on a disk of its own.
    private func giveDisk(of size: String, to device: Device, _ world: World) async throws {
        try await world.shell("mkdir '\(device.state)'; mount -t tmpfs -o mode=700,size=\(size) tmpfs '\(device.state)'")
        world.noteMounted(device.state)
    }

    /// KiB that are free on the device's disk.
    private func free(_ device: Device, _ world: World) async throws -> Int {
        Int(try await world.shell("df --output=avail -k '\(device.state)' | tail -1 | tr -d ' '")) ?? 0
    }

    @Test(.enabled(if: getuid() == 0, "mounting a small disk takes root"))
    func fullDiskWhileDownloading() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let b = try world.device("b")
            // The device leaves 32 MiB for the user's own files.
            try await giveDisk(of: "64m", to: b, world)
            try await b.mount()
            try await a.shell("head -c 60000000 /dev/urandom > large; head -c 300000 /dev/urandom > small")
            try await world.settle(a, b, within: 120)
            let read = try await b.attempt("cat large > /dev/null", within: 120)
            #expect(read.err.contains("No space left on device"), "\(read)")
            #expect(try await b.attribute("downloading-status", of: "large") == "not-downloaded")
            #expect(try await b.attribute("downloading-error", of: "large") != "")
            #expect(try await b.shell("stat -c '%s' large") == "60000000")
            // The partial download does not keep the disk full.
            try await world.eventually("the space is freed") {
                try await world.shell("find '\(b.containerState)/content' -type f -size +1024k") == ""
            }
            try await b.shell("cmp small '\(a.mountPoint)/small'")
            try await b.shell("echo goes > on")
            try await world.settle(b, a)
            #expect(try await a.shell("cat on") == "goes")
        }
    }

    /// Further writes on a full disk do not use the space that is reserved for freeing space.
    @Test(.enabled(if: getuid() == 0, "mounting a small disk takes root"))
    func changesOnAFullDiskKeepTheReserve() async throws {
        try await World.run { world in
            let a = try world.device("a"), b = try await world.mounted("b")
            try await giveDisk(of: "140m", to: a, world)
            func change() async throws {
                let refused = try await a.python(
                    """
                    import errno
                    def refused(change):
                        try:
                            change()
                            return 0
                        except OSError as error:
                            assert error.errno in (errno.ENOSPC, errno.ENOENT, errno.EEXIST), error
                            return error.errno == errno.ENOSPC
                    first = str(os.getpid())
                    for n in range(60000):
                        name = first + '-' + str(n)
                        no = sum(map(refused, (
                            lambda: os.setxattr('f%d' % (n % 9 + 1), 'user.k%d' % (n % 20), os.urandom(1500)),
                            lambda: os.mkdir(name),
                            lambda: os.chmod('f%d' % (n % 9 + 1), 0o600 + n % 64),
                            lambda: os.rename(name, name + 'b'),
                            lambda: os.symlink('x' * 1000, name + 's'))))
                        if no >= 4:
                            print('refused')
                            break
                    """)
                #expect(refused == "refused")
            }
            try await a.mount(["--disk-floor", "40M"])
            try await a.ubiquity("offline", "")
            let filling = "for n in $(seq 40); do head -c 5000000 /dev/urandom > f$n || exit 1; done"
            #expect(try await a.attempt(filling, within: 120).err.contains("No space left on device"))
            try await change()
            try await a.shell("rm f1")
            // Mounted again, and filled again.
            try await a.kill()
            try await a.mount(["--disk-floor", "40M"])
            _ = try await a.attempt("for n in $(seq 40); do head -c 500000 /dev/urandom > h$n || exit 1; done", within: 120)
            try await change()
            try await a.kill()
            try await a.mount(["--disk-floor", "40M"])
            // More than the reserve for freeing space. All of it may be used.
            try await a.shell("rm f2 f3 f4 f5")
            try await world.eventually("new files are created again", within: 60) {
                try await a.attempt("echo new > new").status == 0
            }
            try await a.ubiquity("online", "")
            try await world.settle(a, b, within: 240)
            try await world.eventually("uploaded contents are evicted", within: 60) { try await free(a, world) > 30_000 }
            try await b.shell("diff -rq --no-dereference . '\(a.mountPoint)'", within: 240)
            let doctor = try await a.ubiquity("doctor", "", options: ["--check"])
            #expect(doctor.status == 0, "\(doctor)")
        }
    }

    /// A deletion frees its space even if the index has no space for the record, and uploaded contents are evicted.
    @Test(.enabled(if: getuid() == 0, "mounting a small disk takes root"))
    func diskFullOfOwnFilesRecovers() async throws {
        try await World.run { world in
            let a = try world.device("a"), b = try await world.mounted("b")
            try await giveDisk(of: "140m", to: a, world)
            try await a.mount(["--disk-floor", "40M"])
            try await a.shell("echo first > first")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            func fill(_ name: String) async throws {
                kill(cloud, SIGSTOP)
                defer { kill(cloud, SIGCONT) }
                let filling = "for n in $(seq 40); do head -c 5000000 /dev/urandom > \(name)$n || exit 1; done"
                #expect(try await a.attempt(filling, within: 120).err.contains("No space left on device"))
                // Small files use the space that large ones leave.
                _ = try await a.attempt("for n in $(seq 3000); do head -c 4000 /dev/zero > s$n || exit 1; done", within: 120)
            }
            try await fill("f")
            try await a.shell("rm f1 f2 f3")
            try await world.eventually("the space is free", within: 60) { try await free(a, world) > 10_000 }
            try await world.settle(a, b, within: 120)
            try await world.eventually("uploaded contents are evicted", within: 60) { try await free(a, world) > 38_000 }
            let read = try await a.attempt("cat first; df -k .; ubiquity status . 2>&1 | head")
            #expect(read.text.hasPrefix("first"), "\(read)")
            // A device with a full disk can be mounted, and its files removed.
            try await fill("g")
            try await a.kill()
            try await a.mount(["--disk-floor", "40M"])
            try await a.shell("rm g1 g2")
            try await world.settle(a, b, within: 120)
            // All files together exceed the disk: contents that were read are evicted, and earlier requests wait for
            // the space, though less long than a busy machine may take.
            try await world.eventually("both have the same", within: 120) {
                try await b.attempt("diff -rq . '\(a.mountPoint)'", within: 120).status == 0
            }
            let doctor = try await a.ubiquity("doctor", "", options: ["--check"])
            #expect(doctor.status == 0, "\(doctor)")
        }
    }

    /// The disk is full for the kernel, which writes without the daemon; it does not if the state is on a tmpfs.
    @Test(
        .enabled(
            if: getuid() == 0 && access("/dev/loop-control", F_OK) == 0, "a file system in a file takes root and loop devices"))
    func passthroughWritesToAFullDiskFail() async throws {
        try await World.run { world in
            let a = try world.device("a"), b = try await world.mounted("b")
            try await world.shell(
                """
                cd '\(world.folder)'; PATH="$PATH:/usr/sbin:/sbin"; truncate -s 160M disk; mkfs.ext4 -q disk
                mkdir '\(a.state)'; mount -o loop disk '\(a.state)'
                """)
            world.noteMounted(a.state)
            try await a.mount()
            try #require(try await a.status().passthrough == KernelFeatureStatus(isActive: true))
            // So that nothing is uploaded, and then frees space.
            try await a.ubiquity("offline", "")
            try await a.shell("echo first > own")
            let full = "No space left on device"
            let writing = try await a.attempt("yes 0123456789abcde | head -c 300M > f")
            #expect(writing.status != 0 && writing.err.contains(full), "\(writing)")
            try await a.shell("yes 0123456789abcde | head -c $(stat -c %s f) | cmp - f")
            let allocating = try await a.attempt("fallocate -l 1G g")
            #expect(allocating.status != 0 && allocating.err.contains(full), "\(allocating)")
            // Some space, for a write that fits only in part.
            try await a.python(
                """
                os.truncate('f', os.stat('f').st_size - 3_050_000)
                file, written = os.open('own', os.O_RDWR | os.O_APPEND), 0
                try:
                    while True: written += os.write(file, b'x' * 100_000)
                except OSError as error:
                    assert error.errno == errno.ENOSPC, error
                assert os.fstat(file).st_size == 6 + written, (os.fstat(file), written)
                assert os.pread(file, 1 << 28, 0) == b'first\\n' + b'x' * written
                fails('ENOSPC', lambda: os.posix_fallocate(file, 0, 1 << 30))
                """)
            try await a.shell("rm -f f g")
            try await world.eventually("the space is free", within: 60) { try await free(a, world) > 90_000 }
            try await world.eventually("new files are created again", within: 60) {
                try await a.attempt("echo new > new && fallocate -l 1M allocated").status == 0
            }
            try await a.ubiquity("online", "")
            try await world.settle(a, b, within: 120)
            #expect(try await b.shell("cat new; head -n 1 own; stat -c %s allocated") == "new\nfirst\n1048576")
            try await b.shell("diff -rq . '\(a.mountPoint)'")
            let doctor = try await a.ubiquity("doctor", "", options: ["--check"])
            #expect(doctor.status == 0, "\(doctor)")
        }
    }

    @Test func damagedChunkIsNeverDelivered() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                "head -c 900000 /dev/urandom > bad; head -c 900000 /dev/urandom > good; printf small > tiny")
            try await world.settle(a, b)
            try await damage(firstChunkOf: "bad", on: a)
            let read = try await b.attempt("cat bad > /dev/null")
            #expect(read.err.contains("Input/output error"), "\(read)")
            try await b.waitUntil("getfattr --only-values -n user.ubiquity.downloading-error bad | grep -q .")
            #expect(try await b.attribute("downloading-status", of: "bad") == "not-downloaded")
            try await b.shell("cmp good '\(a.mountPoint)/good'; cat tiny")
            #expect(try await a.shell("wc -c < bad") == "900000")
            // Its author saves it again: that repairs it.
            try await a.shell("head -c 900000 /dev/urandom > bad")
            try await world.settle(a, b)
            try await b.shell("cmp bad '\(a.mountPoint)/bad'")
            #expect(try await b.attribute("downloading-error", of: "bad") == "")
        }
    }

    /// It does not look like a deleted file.
    @Test func fileWithChunksLostAtTheCloudIsDamaged() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 900000 /dev/urandom > lost; printf small > tiny")
            try await world.settle(a, b)
            try await world.shell(
                """
                find '\(world.cloudData)' -path '*chunk*' -type f -delete
                sqlite3 '\(world.cloudData)/metadata.db' 'DELETE FROM smallChunks'
                """)
            for name in ["lost", "tiny"] {
                let read = try await b.attempt("cat \(name) > /dev/null")
                #expect(read.status != 0 && read.err.contains("Input/output error"), "\(read)")
                #expect(try await b.shell("stat -c %n \(name)") == name)
            }
        }
    }

    /// Changes one byte in the cloud's file that holds the first 64 KiB of an item.
    private func damage(firstChunkOf path: String, on device: Device) async throws {
        try await Tools.python(
            """
            start = open('\(device.mountPoint)/\(path)', 'rb').read(65536)
            found = 0
            for folder, _, files in os.walk('\(device.world.cloudData)'):
                for name in files:
                    full = os.path.join(folder, name)
                    if name.endswith(('.sock', 'lock', '.log')):
                        continue
                    content = open(full, 'rb').read()
                    at = content.find(start)
                    if at >= 0:
                        with open(full, 'r+b') as file:
                            file.seek(at + 1000)
                            file.write(bytes([content[at + 1000] ^ 1]))
                        found += 1
            assert found, 'no chunk found'
            """, in: device.world)
    }

    /// Kills daemons and the cloud at random moments while files are made, changed, renamed and removed. Every
    /// acknowledged change must be there afterwards, on all devices.
    @Test(arguments: [1, 2]) func killsAtRandomMoments(_ seed: UInt64) async throws {
        try await World.run { world in
            var random = seed &* 0x9E37_79B9_7F4A_7C15
            func next(_ bound: UInt64) -> UInt64 {
                random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return (random >> 33) % bound
            }
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let journal = world.folder + "/journal"
            for round in 0..<4 {
                let worker = try world.start(
                    ["/usr/bin/python3", "-c", Self.worker, a.mountPoint, journal, "\(seed)-\(round)"])
                try await Task.sleep(for: .milliseconds(200 + Int(next(600))))
                if next(3) == 0, world.cloudProcess != nil { try await world.killCloud() }
                if next(2) == 0 { try await b.kill() }
                try await a.kill()
                _ = try await worker.finish()
                try await a.mount()
                if b.processID == nil { try await b.mount() }
            }
            try await world.settle(a, b, within: 120)
            let pictures = [
                try await Tools.picture(of: a.mountPoint, in: world),
                try await Tools.picture(of: b.mountPoint, in: world),
            ]
            expectSame(pictures, "seed \(seed)")
            try await Tools.python(Self.auditor + "\naudit('\(journal)', '\(b.mountPoint)')\n", in: world)
        }
    }

    /// Works until the mount dies, and logs its intentions and the acknowledged operations.
    private static let worker = """
        import os, sys, random
        os.chdir(sys.argv[1])
        journal = open(sys.argv[2], 'a', buffering=1)
        rng = random.Random(sys.argv[3])
        made = []
        count = 0
        try:
            while True:
                count += 1
                name = f'{sys.argv[3]}-{count}'
                choice = rng.random()
                if choice < 0.6 or not made:
                    data = rng.randbytes(rng.choice([10, 5000, 200000]))
                    journal.write(f'try {name} -\\n')
                    with open(name, 'wb') as file:
                        file.write(data)
                    import hashlib
                    journal.write(f'has {name} {hashlib.sha256(data).hexdigest()}\\n')
                    made.append(name)
                elif choice < 0.8:
                    old = made.pop(rng.randrange(len(made)))
                    journal.write(f'try {old} -\\n')
                    os.rename(old, name)
                    journal.write(f'moved {old} {name}\\n')
                    made.append(name)
                else:
                    old = made.pop(rng.randrange(len(made)))
                    journal.write(f'try {old} -\\n')
                    os.unlink(old)
                    journal.write(f'gone {old} -\\n')
        except OSError:
            pass
        """

    private static let auditor = """
        import hashlib
        def audit(journal, folder):
            known, unsure = {}, set()
            for line in open(journal):
                word, name, rest = line.split()
                if word == 'try':
                    unsure.add(name)
                elif word == 'has':
                    known[name] = rest
                    unsure.discard(name)
                elif word == 'moved':
                    known[rest] = known.pop(name)
                    unsure.discard(name)
                elif word == 'gone':
                    known.pop(name, None)
                    unsure.discard(name)
                    assert not os.path.exists(os.path.join(folder, name)), f'{name} came back'
            for name, digest in known.items():
                if name not in unsure:
                    data = open(os.path.join(folder, name), 'rb').read()
                    assert hashlib.sha256(data).hexdigest() == digest, f'{name} is not as it was written'
        """
}
