import Glibc
import Testing
import UbiquityControl

/// Changes on one device appear on the other, without any action there.
@Suite struct SyncTests {
    @Test func filesFoldersLinksAndAttributesSync() async throws {
        try await World.run { world in
            // Without the option, set-user-id bits from another device are removed.
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b", "--trust-suid"))
            try await a.shell(
                """
                mkdir -p Documents/deep/er empty
                printf 'hello' > Documents/deep/er/hello.txt
                : > nothing
                head -c 3000000 /dev/urandom > large
                ln -s Documents/deep link; ln -s /nowhere/at/all dangling
                chmod 751 Documents/deep; chmod 640 nothing; chmod 4755 large
                setfattr -n user.colour -v blue Documents/deep/er/hello.txt
                setfattr -n user.tag -v yes Documents
                touch -d '2001-02-03 04:05:06.123456789 UTC' nothing Documents/deep
                touch -h -d '2002-02-03 04:05:06.987654321 UTC' link
                """)
            try await world.settle(a, b)
            let pictures = [
                try await Tools.picture(of: a.mountPoint, in: world),
                try await Tools.picture(of: b.mountPoint, in: world),
            ]
            expectSame(pictures, "two devices")
            #expect(pictures[1].contains("'Documents/deep/er/hello.txt'"))
            #expect(pictures[1].contains("981173106123456789"))
            #expect(pictures[1].contains("1012709106987654321"))
            #expect(pictures[1].contains("user.colour=" + "626c7565"))
            #expect(pictures[1].contains("-> /nowhere/at/all"))
        }
    }

    @Test func changesOfExistingItemsSync() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                "mkdir d e; echo 1 > d/f; echo 2 > g; setfattr -n user.x -v 1 g; echo gone > h; mkdir -p r/s")
            try await world.settle(a, b)
            // Warms the kernel's caches of the other device: names, attributes, absent names, content.
            try await b.shell("ls -lR; cat d/f g; ! stat e/moved; ! stat new; getfattr -d g")
            try await a.shell(
                """
                mv d/f e/moved; mv g renamed; rm h; rmdir r/s r; echo new > new
                setfattr -n user.x -v 2 renamed; setfattr -n user.y -v 3 renamed; chmod 600 renamed
                mkdir d/sub; mv d/sub e/sub; mv e n
                """)
            try await b.waitUntil("test -e n/moved -a -d n/sub -a ! -e d/f -a -e renamed -a ! -e g -a ! -e h -a ! -e r")
            try await b.waitUntil("test \"$(cat new)\" = new")
            try await b.waitUntil(
                "test \"$(stat -c %a renamed)\" = 600 -a \"$(getfattr --only-values -n user.y renamed)\" = 3")
            #expect(try await b.shell("getfattr --only-values -n user.x renamed") == "2")
            try await a.shell("setfattr -x user.x renamed; echo more >> n/moved")
            try await b.waitUntil("! getfattr -n user.x renamed")
            try await b.waitUntil("test \"$(cat n/moved)\" = '1\nmore'")
            #expect(try await b.shell("ls") == "d\nn\nnew\nrenamed")
            try await world.settle(a, b)
            expectSame(
                [
                    try await Tools.picture(of: a.mountPoint, in: world),
                    try await Tools.picture(of: b.mountPoint, in: world),
                ], "two devices")
        }
    }

    /// Under a library that shifts a program's clocks, all of them or only the wall clock.
    @Test(arguments: ["0", "1"]) func deviceWithAnotherClockSyncs(monotonicClockStays: String) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try world.device("b"))
            try await b.mount(environment: world.shiftedClock([
                "FAKETIME": "+365d", "FAKETIME_DONT_FAKE_MONOTONIC": monotonicClockStays,
            ]))
            try await a.shell("echo 1 > f")
            try await b.shell("head -c 3000000 /dev/urandom > g")
            try await world.settle(a, b)
            try await a.shell("cmp g '\(b.mountPoint)/g'")
            #expect(try await b.shell("cat f") == "1")
            let daemon = try #require(b.processID)
            #expect(try await world.shell("grep -c faketime /proc/\(daemon)/maps") != "0")
            try await b.unmount()
        }
    }

    @Test func exchangeAndNoReplace() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo one > one; echo two > two; mkdir folder; echo in > folder/in")
            try await world.settle(a, b)
            try await b.shell("cat one two folder/in")
            try await a.python(
                """
                fails('EEXIST', lambda: renameat2('one', 'two', 1))
                renameat2('one', 'three', 1)
                renameat2('three', 'two', 2)
                renameat2('two', 'folder', 2)
                assert open('folder').read() == 'one\\n'
                assert open('two/in').read() == 'in\\n'
                fails('ENOENT', lambda: renameat2('three', 'absent', 2))
                """)
            try await world.settle(a, b)
            #expect(try await b.shell("ls; cat three folder two/in") == "folder\nthree\ntwo\ntwo\none\nin")
        }
    }

    @Test func namesOfAllKinds() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.python(
                """
                names = ['a b', 'tab\\there', 'line\\nbreak', '-x', '.hidden', 'caf\\u00e9', 'cafe\\u0301', 'A', 'a',
                         '\\u65e5\\u672c', '"\\'\\\\$(x)', 'n' * 255, '\\u00e9' * 127]
                for name in names:
                    open(name, 'w').write(name)
                fails('ENAMETOOLONG', lambda: open('n' * 256, 'w'))
                fails('EILSEQ', lambda: open(b'bad\\xff', 'w'))
                """)
            try await world.settle(a, b)
            #expect(
                try await b.python(
                    """
                    names = os.listdir('.')
                    assert all(open(name).read() == name for name in names)
                    print(len(names))
                    """) == "13")
        }
    }

    /// During a long time offline, a program that saves by rename makes a new file each time.
    @Test func unsentItemIsNotPendingAfterItsRemoval() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo 1 > old; echo 2 > doc")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            try await a.shell(
                """
                for n in $(seq 20); do echo $n > t$n; mv t$n doc; echo $n > gone$n; rm gone$n; done
                mkdir d; touch d/x; rm -r d; rm old
                """)
            // The top folder's time is pending too.
            let pending = try await a.status().pending.map(\.path).filter { !$0.isEmpty }
            #expect(pending.count == 2 && pending.contains("doc") && pending.contains { $0.contains("old") }, "\(pending)")
            #expect(try await a.status().uploads.items <= 3)
            try await a.ubiquity("online", "")
            try await a.waitUntilIdle()
            #expect(try await a.status().uploads.items == 0)
        }
    }

    @Test func rewritingTheSameBytesSendsNoContent() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 2000000 /dev/urandom > f; cp f '\(world.folder)/copy'")
            try await world.settle(a, b)
            let version = try await a.attribute("version-id", of: "f")
            let sent = try await a.sent {
                try await a.shell("cat '\(world.folder)/copy' > f; touch f")
                try await a.waitUntilIdle()
            }
            #expect(sent < 200_000)
            #expect(try await a.attribute("version-id", of: "f") == version)
            try await world.settle(a, b)
            #expect(try await a.shell("stat -c %y f") == (try await b.shell("stat -c %y f")))
            try await b.shell("cmp f '\(world.folder)/copy'")
        }
    }

    @Test func insertedByteTransfersFewChunks() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 12000000 /dev/urandom > '\(world.folder)/base'; cp '\(world.folder)/base' f")
            try await world.settle(a, b)
            try await b.shell("cmp f '\(world.folder)/base'")
            let before = try await b.status().bytesReceived
            let sent = try await a.sent {
                try await a.shell(
                    "{ printf x; cat '\(world.folder)/base'; } > '\(world.folder)/next'; cp '\(world.folder)/next' f")
                try await a.waitUntilIdle()
            }
            #expect(sent < 3_000_000)
            try await world.settle(a, b)
            try await b.waitFor("downloading-status", "current", of: "f")
            try await b.shell("cmp f '\(world.folder)/next'")
            #expect(try await b.status().bytesReceived - before < 3_000_000)
        }
    }

    @Test func excludedItemsAreNotSynced() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir build.nosync; echo x > build.nosync/x; echo y > 'f~'; echo z > .f.swp; echo f > f")
            try await world.settle(a, b)
            #expect(try await b.shell("ls -A") == "f")
            #expect(try await a.attribute("is-excluded-from-sync", of: "build.nosync/x") == "1")
            #expect(try await a.attribute("is-ubiquitous", of: "build.nosync/x") == "0")
            #expect(try await a.attribute("is-excluded-from-sync", of: "f") == "0")
            try await a.killAndMount()
            #expect(try await a.shell("cat build.nosync/x 'f~' .f.swp") == "x\ny\nz")
        }
    }

    @Test func operationsOfOrdinaryPrograms() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.python(
                """
                import mmap
                fd = os.open('f', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
                fails('EEXIST', lambda: os.open('f', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
                os.posix_fallocate(fd, 0, 10000)
                assert os.fstat(fd).st_size == 10000
                os.pwrite(fd, b'middle', 5000)
                os.ftruncate(fd, 20000)
                os.fsync(fd)
                copy = os.open('copy', os.O_RDWR | os.O_CREAT)
                done = 0
                while done < 20000:
                    done += os.copy_file_range(fd, copy, 20000 - done)
                assert os.pread(copy, 6, 5000) == b'middle'
                with mmap.mmap(copy, 20000) as memory:
                    memory[0:5] = b'front'
                    memory.flush()
                os.close(copy)
                assert open('copy', 'rb').read(5) == b'front'
                os.ftruncate(fd, 1 << 20)
                os.pwrite(fd, b'end', 1 << 20)
                assert os.lseek(fd, 0, os.SEEK_DATA) == 0
                assert os.lseek(fd, 0, os.SEEK_HOLE) <= (1 << 20) + 3
                os.close(fd)
                folder = os.open('.', os.O_RDONLY)
                os.fsync(folder)
                assert os.statvfs('.').f_bavail > 0
                os.mkdir('d'); open('d/x', 'w').close()
                fails('ENOTEMPTY', lambda: os.rmdir('d'))
                fails('EISDIR', lambda: os.unlink('d'))
                fails('ENOTDIR', lambda: os.listdir('f'))
                fails('ENOENT', lambda: os.stat('d/absent'))
                fails('ENODATA', lambda: os.getxattr('f', 'user.none'))
                open_file = open('d/x', 'r+')
                os.unlink('d/x')
                open_file.write('unlinked'); open_file.seek(0)
                assert open_file.read() == 'unlinked'
                os.rmdir('d')
                """)
            try await world.settle(a, b)
            #expect(
                try await b.shell("cat f copy | sha256sum; ls") == (try await a.shell("cat f copy | sha256sum; ls")))
        }
    }

    @Test func openFileKeepsItsContentAndTheNextOpenGetsTheNew() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("yes old | head -c 3000000 > f")
            try await world.settle(a, b)
            let fifo = world.folder + "/go"
            try await world.shell("mkfifo '\(fifo)'")
            let reader = try b.start("exec 3< f; head -c 4 <&3; read line < '\(fifo)'; cat <&3 | sha256sum")
            try await world.eventually("the reader has begun") { reader.outputSoFar == "old\n" }
            try await a.shell("yes new | head -c 1000000 > f")
            try await world.settle(a, b)
            try await b.waitUntil("test \"$(head -c 4 f)\" = new")
            #expect(try await b.shell("stat -c %s f") == "1000000")
            try await world.shell("echo > '\(fifo)'")
            let rest = try await world.shell("yes old | head -c 3000000 | tail -c +5 | sha256sum")
            #expect(try await reader.finish().out == "old\n\(rest)\n")
        }
    }

    @Test("DB-02: an open file is readable to its end after a remote deletion, also its missing parts")
    func openFileOutlivesARemoteDeletion() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 8000000 /dev/urandom > away; head -c 300000 /dev/urandom > here; cp away here ..")
            try await world.settle(a, b)
            try await b.shell("cat here > /dev/null")
            try await b.waitFor("downloading-status", "current", of: "here")
            try await world.shell("mkfifo '\(world.folder)/go'")
            let cloud = try #require(world.cloudProcess)
            defer { kill(cloud, SIGCONT) }
            // Stopped before the remaining content has arrived.
            let reader = try b.start(
                """
                exec 3< away 4< here
                head -c 4 <&3 > ../away.read; kill -STOP \(cloud); head -c 4 <&4 > ../here.read
                echo begun; read -r line < ../go
                cat <&3 >> ../away.read; cat <&4 >> ../here.read
                """)
            try await world.eventually("the reader has begun") { reader.outputSoFar == "begun\n" }
            try await a.shell("rm away here")
            kill(cloud, SIGCONT)
            try await b.waitUntil("test ! -e away -a ! -e here")
            try await world.shell("echo > '\(world.folder)/go'")
            let outcome = try await reader.finish()
            #expect(outcome.status == 0, "\(outcome)")
            try await world.shell("cd '\(world.folder)'; cmp away away.read; cmp here here.read")
            try await world.settle(b, a)
            for device in [a, b] { #expect(try await device.shell("ls -A") == "") }
        }
    }

    @Test("DB-02: writes to an open file appear under its remote new name")
    func openFileOutlivesARemoteRename() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > f")
            try await world.settle(a, b)
            try await world.shell("mkfifo '\(world.folder)/go'")
            let writer = try b.start("exec 3>> f; echo open; read -r line < ../go; echo 2 >&3")
            try await world.eventually("it is open") { writer.outputSoFar == "open\n" }
            try await a.shell("mv f g")
            try await b.waitUntil("test -e g -a ! -e f")
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await writer.finish().status == 0)
            try await a.waitUntil("test \"$(cat g)\" = '1\n2'")
            try await world.settle(b, a)
            for device in [a, b] {
                #expect(try await device.shell("ls -A; cat g") == "g\n1\n2")
                #expect(try await device.attribute("conflict-count", of: ".") == "0")
            }
        }
    }
}
