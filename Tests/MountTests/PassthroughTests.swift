import Foundation
import Glibc
import Testing
import UbiquityControl

/// Files with passthrough, and the behavior that must be the same without it.
@Suite struct PassthroughTests {
    static let environments: [[String: String]] = [[:], ["UBIQUITY_PASSTHROUGH": "off"]]

    @Test(.enabled(if: getuid() == 0, "passthrough takes CAP_SYS_ADMIN"))
    func statusShowsStateAndReason() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            #expect(try await a.status().passthrough == KernelFeatureStatus(isActive: true))
            try await a.unmount()
            try await a.mount(["--no-passthrough"])
            let status = try await a.status().passthrough
            #expect(!status.isActive && status.reason?.contains("--no-passthrough") == true)
            try await a.unmount()
            try await a.mount(environment: ["UBIQUITY_PASSTHROUGH": "off"])
            #expect(try await a.status().passthrough.reason?.contains("UBIQUITY_PASSTHROUGH") == true)
        }
    }

    /// A command that runs a program as an unprivileged user, in its own mount namespace where that user may open the
    /// device, like the owner of a machine.
    private func nobody(_ world: World) async throws -> [String] {
        let holder = try world.start(
            ["unshare", "--mount", "sh", "-ec",
                """
                mkdir '\(world.folder)/dev'; mount -t tmpfs none '\(world.folder)/dev'; cd '\(world.folder)/dev'
                mknod -m 666 fuse c 10 229; mount --bind fuse /dev/fuse; chown 65534:65534 '\(world.folder)'/*
                chown 65534:65534 '\(world.folder)'; echo ready; exec sleep 1000
                """])
        try await world.eventually("there are other mounts") { holder.outputSoFar == "ready\n" }
        return ["nsenter", "--mount", "--target", "\(holder.processID)", "setpriv", "--reuid=65534", "--regid=65534",
            "--clear-groups", "--inh-caps=-all", "--"]
    }

    /// Mounts by fusermount3, like users on their own machines. The tests run as root; these mounts run as the user.
    @Test func withoutCapabilityTheDaemonServesFiles() async throws {
        try await World.run { world in
            let (a, b) = (try world.device("a"), try world.device("b"))
            let user = getuid() == 0 ? try await nobody(world) : []
            func run(_ device: Device, _ script: String) async throws -> String {
                let outcome = try await world.attempt(
                    user + ["/bin/sh", "-ec", "cd '\(device.mountPoint)'\n\(script)"])
                try #require(outcome.status == 0, "\(device.name): \(script)\n\(outcome)")
                return outcome.text
            }
            func ubiquity(_ arguments: String...) async throws -> Command.Outcome {
                let outcome = try await world.attempt(user + [World.program] + arguments)
                try #require(outcome.status == 0, "\(arguments)\n\(outcome)")
                return outcome
            }
            func settle() async throws {
                for device in [a, b, a, b] { _ = try await ubiquity("wait", "--idle", "--timeout", "60", device.mountPoint) }
            }
            for device in [a, b] {
                _ = try await ubiquity(
                    "mount", "--state", device.state, "--device", device.name, "--disk-floor", "0", device.mountPoint)
            }
            if !user.isEmpty {
                let daemon = try #require(a.processID)
                let rights = try await world.shell("awk '/^(Uid|CapEff)/ { print $2 }' /proc/\(daemon)/status").split(separator: "\n")
                #expect(rights == ["65534", "0000000000000000"])
            }
            let told = try await ubiquity("status", "--state", a.state, "--json").text
            let status = try ControlCodec.decode(MountStatus.self, from: told.utf8)
            #expect(!status.passthrough.isActive && status.passthrough.reason?.contains("CAP_SYS_ADMIN") == true)
            let lines = try await ubiquity("status", "--state", a.state).out.split(separator: "\n")
            #expect(lines.contains { $0.contains("passthrough") && $0.contains("CAP_SYS_ADMIN") }, "\(lines)")

            let sum = try await run(
                a,
                """
                mkdir d; echo text > d/f; head -c 3000000 /dev/urandom > large; setfattr -n user.k -v v d/f; mv d e
                cat e/f > /dev/null; sha256sum < large
                """)
            try await settle()
            let read = try await run(b, "cat e/f; getfattr --only-values -n user.k e/f; echo; sha256sum < large; stat -c %u large")
            #expect(read == "text\nv\n\(sum)\n\(user.isEmpty ? getuid() : 65534)")
            _ = try await run(b, "echo more >> e/f; printf x | dd of=large bs=1 seek=2000000 conv=notrunc status=none")
            try await settle()
            // A second daemon serves the bytes that the first one had in the page cache.
            let now = "sha256sum < large; cat e/f"
            #expect(try await run(a, now) == (try await run(b, now)))
            #expect(try await run(a, "cat e/f; tail -c +2000001 large | head -c 1") == "text\nmore\nx")
            for device in [a, b] {
                _ = try await ubiquity("unmount", device.mountPoint)
                try await world.eventually("it has ended") { device.processID == nil }
            }
        }
    }

    /// Operations on open files; on a second device each file is a placeholder at its first open.
    @Test(arguments: environments) func openFilesBehaveAsOnADisk(_ environment: [String: String]) async throws {
        try await World.run { world in
            let (a, b) = (try world.device("a"), try world.device("b"))
            for device in [a, b] { try await device.mount(environment: environment) }
            for device in [a, b] {
                try await device.python(Self.program)
                try await world.settle(a, b)
                let (here, there) = (try await Tools.picture(of: a.mountPoint, in: world),
                    try await Tools.picture(of: b.mountPoint, in: world))
                #expect(here == there)
            }
        }
    }

    /// Each step leaves its file for the next device.
    private static let program = """
        import fcntl, mmap, subprocess
        def put(name, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
            f = os.open(name, flags, 0o644)
            assert os.write(f, text) == len(text)
            os.close(f)
        def get(name):
            with open(name, 'rb') as f: return f.read()

        # Two handles, one file; a write is seen at once, by size and by content.
        old = get('shared') if os.path.exists('shared') else b''
        reader = None if not old else os.open('shared', os.O_RDONLY)
        writer = os.open('shared', os.O_RDWR | os.O_CREAT, 0o644)
        reader = reader or os.open('shared', os.O_RDONLY)
        appender = os.open('shared', os.O_WRONLY | os.O_APPEND)
        for n in range(50):
            os.pwrite(writer, b'w', len(old) + 2 * n); os.write(appender, b'a')
            assert os.fstat(reader).st_size == len(old) + 2 * n + 2 == os.stat('shared').st_size
            assert os.pread(reader, 2, len(old) + 2 * n) == b'wa'
        os.fsync(writer)
        os.ftruncate(writer, 10)
        assert os.pread(reader, 100, 0) == (old + b'wa' * 50)[:10]
        for f in (reader, writer, appender): os.close(f)
        put('shared', b'end', os.O_WRONLY | os.O_APPEND)

        # Mappings: a store is read by others; it stays when the handle is closed before it.
        put('mapped', b'm' * 9000)
        f = os.open('mapped', os.O_RDWR)
        view = mmap.mmap(f, 9000)
        os.close(f)
        view[0:4] = b'head'; view[8996:9000] = b'tail'
        assert get('mapped')[:4] == b'head' and get('mapped')[-4:] == b'tail'
        view.flush(); view.close()
        f = os.open('mapped', os.O_RDONLY)
        private = mmap.mmap(f, 9000, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        private[0:4] = b'xxxx'; private.close(); os.close(f)
        assert get('mapped')[:4] == b'head'

        # Without a name; replaced; exchanged.
        put('gone', b'first')
        f = os.open('gone', os.O_RDWR); os.unlink('gone')
        os.write(f, b'later'); assert os.pread(f, 9, 0) == b'later' and os.fstat(f).st_nlink == 0
        os.close(f)
        put('target', b'old'); put('new', b'new!')
        f = os.open('target', os.O_RDWR); os.rename('new', 'target')
        os.write(f, b'lost'); assert get('target') == b'new!' and os.pread(f, 9, 0) == b'lost'
        os.close(f)

        # O_DIRECT, O_DSYNC, holes, fallocate, times.
        block = mmap.mmap(-1, 4096); block.write(b'd' * 4096)
        f = os.open('direct', os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
        os.writev(f, [block]); assert os.preadv(f, [block], 0) == 4096
        # Taken off, as by dd for what is no whole block; beside handles without it, and a mapping.
        fcntl.fcntl(f, fcntl.F_SETFL, 0)
        assert os.pwrite(f, b'end', 4097) == 3 and os.pread(f, 9, 4090) == b'd' * 6 + b'\\0en'
        plain = os.open('direct', os.O_RDWR); view = mmap.mmap(f, 4100); os.pwrite(plain, b'p', 0); view[1:2] = b'v'
        assert os.pread(f, 3, 0) == b'pvd' and os.pread(plain, 3, 0) == b'pvd' and view[4097:4100] == b'end'
        os.pwrite(f, b'f', 2); assert view[:3] == b'pvf' and os.fstat(plain).st_size == 4100
        view.close(); os.close(plain); os.close(f)
        put('odd', os.urandom(1000003))
        subprocess.run('dd if=odd of=copied bs=64k oflag=direct status=none && cmp odd copied', shell=True, check=True)
        put('synced', b'durable', os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
        f = os.open('holes', os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(f, b'x', 1 << 20); os.posix_fallocate(f, 0, 4096)
        assert os.fstat(f).st_size == (1 << 20) + 1 and os.lseek(f, 8192, os.SEEK_DATA) >= 8192
        os.utime(f, ns=(10**18, 10**18 + 7)); os.close(f)
        assert os.stat('holes').st_mtime_ns == 10**18 + 7
        """

    @Test(arguments: environments) func mappedStoreAfterTheCloseIsUploaded(_ environment: [String: String]) async throws {
        try await World.run { world in
            let (a, b) = (try world.device("a"), try world.device("b"))
            for device in [a, b] { try await device.mount(environment: environment) }
            try await a.shell("head -c 9000 /dev/zero | tr '\\0' m > f")
            try await world.settle(a, b)
            let program = """
                import mmap, time
                f = os.open('f', os.O_RDWR); view = mmap.mmap(f, 9000); os.close(f)
                view[0:5] = b'first'; print('stored', flush=True)
                while not os.path.exists('go'): time.sleep(0.02)
                view[0:5] = b'again'; view[4096:4101] = b'again'; view.close(); print('done', flush=True)
                """
            let storing = try world.start(
                ["/usr/bin/python3", "-c", "import os\nos.chdir('\(a.mountPoint)')\n\(program)"])
            try await world.eventually("it has stored") { storing.outputSoFar == "stored\n" }
            // A mapped file is in use: it is neither evicted nor replaced.
            let outcome = try await a.ubiquity("evict", "f")
            #expect(outcome.status == 1)
            try await a.shell("touch go")
            #expect(try await storing.finish().status == 0)
            try await world.settle(a, b)
            #expect(try await b.shell("head -c 5 f; tail -c +4097 f | head -c 6") == "againagainm")
        }
    }

    @Test(arguments: environments) func openFileIsUploadedPeriodically(_ environment: [String: String]) async throws {
        try await World.run { world in
            let (a, b) = (try world.device("a"), try world.device("b"))
            for device in [a, b] { try await device.mount(environment: environment) }
            try await a.shell("echo start > f")
            try await world.settle(a, b)
            let writer = try a.start("exec 3>> f; echo more >&3; echo ready; exec sleep 100")
            try await world.eventually("it has written") { writer.outputSoFar == "ready\n" }
            try await b.waitUntil("test \"$(cat f)\" = \"start\nmore\"", within: 60)
            #expect(writer.isRunning)
        }
    }

    @Test(.enabled(if: getuid() == 0, "passthrough takes CAP_SYS_ADMIN"))
    func writerThatOutlivesTheDaemonIsFound() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo start > f; echo start > g")
            try await world.settle(a, b)
            // The program continues in the dead mount: the kernel needs only the backing file.
            let go = "\(world.folder)/go"
            let writer = try a.start(
                "exec 3>> f; echo before >&3; echo ready; until test -e \(go)1; do sleep 0.05; done; echo dead >&3;"
                    + "echo written; until test -e \(go)2; do sleep 0.05; done; echo alive >&3; echo end")
            try await world.eventually("it has written") { writer.outputSoFar == "ready\n" }
            try await a.kill()
            try await world.shell("touch \(go)1")
            try await world.eventually("it continues") { writer.outputSoFar == "ready\nwritten\n" }
            try await a.mount()
            #expect(try await a.shell("cat f") == "start\nbefore\ndead")
            try await world.shell("touch \(go)2")
            #expect(try await writer.finish().status == 0)
            try await b.waitUntil("test \"$(cat f)\" = \"start\nbefore\ndead\nalive\"", within: 60)
            try await world.settle(a, b)
            #expect(try await a.shell("cat f g") == "start\nbefore\ndead\nalive\nstart")
        }
    }

    /// It has only mappings, and no descriptor.
    @Test(.enabled(if: getuid() == 0, "passthrough takes CAP_SYS_ADMIN"))
    func mappingThatOutlivesTheDaemonIsFound() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 12288 /dev/zero | tr '\\0' m > f")
            try await world.settle(a, b)
            let go = "\(world.folder)/go"
            let program = """
                import mmap, os, time
                os.chdir('\(a.mountPoint)')
                f = os.open('f', os.O_RDWR); view = mmap.mmap(f, 12288); os.close(f)
                for page, text in enumerate((b'first', b'again', b'third')):
                    while not os.path.exists(f'\(go){page}'): time.sleep(0.02)
                    view[4096 * page:4096 * page + 5] = text
                    print(page, flush=True)
                view.flush()
                """
            let storing = try world.start(["/usr/bin/python3", "-c", program])
            let stored = "tr -d m < f"
            try await world.shell("touch \(go)0")
            try await world.eventually("it has stored") { storing.outputSoFar == "0\n" }
            try await a.kill()
            try await world.shell("touch \(go)1")
            try await world.eventually("it continues") { storing.outputSoFar == "0\n1\n" }
            try await a.mount()
            #expect(try await a.shell(stored) == "firstagain")
            // Before the program continues: its later writes are not those that the mount found at its start.
            try await b.waitUntil("test \"$(\(stored))\" = firstagain", within: 60)
            try await world.shell("touch \(go)2")
            #expect(try await storing.finish().status == 0)
            try await b.waitUntil("test \"$(\(stored))\" = firstagainthird", within: 60)
            try await world.settle(a, b)
            try await b.shell("cmp f '\(a.mountPoint)/f'")
        }
    }
}
