import Foundation
import Testing

/// Requests that the kernel answers from its caches without the daemon.
@Suite struct KernelCacheTests {
    /// Reads of the daemon: each request of the kernel is one read unless it comes by io_uring, and an idle daemon
    /// reads little else.
    private func reads(_ device: Device) throws -> Int {
        let process = try #require(device.processID)
        let text = try String(contentsOfFile: "/proc/\(process)/io", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("syscr:") })
        return try #require(Int(line.split(separator: " ")[1]))
    }

    private func requests(_ device: Device, _ program: String) async throws -> Int {
        // The first run fills the kernel's caches.
        try await device.python(program)
        let before = try reads(device)
        try await device.python(program)
        return try reads(device) - before
    }

    @Test func knownAttributesCostNoRequests() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(environment: ["UBIQUITY_IO_URING": "off"])
            try await a.shell("mkdir d; cd d; for n in $(seq 300); do echo $n > $n; done")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            // Uncached requests count each time.
            #expect(try await requests(a, "for _ in range(1500): os.statvfs('d')") >= 1500)
            // 1,500 calls; a few reads come from the timers, the status and the start of Python.
            for first in [1, 301] {
                let known = "all(os.path.exists(f'd/{n}') == (n < 301) for n in range(\(first), \(first + 300)))"
                #expect(try await requests(a, "for _ in range(5): assert \(known)") < 300)
            }
            // It asks for a label of each file, unless the first answer is that this file system has none.
            #expect(try await requests(a, "import subprocess\nsubprocess.run(['ls', '-l', 'd'], check=True)") < 150)
        }
    }

    /// With the daemon stopped, any request to it would wait for ever.
    @Test func knownTreeIsWalkedWithoutTheDaemon() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("for d in p q r/s; do mkdir -p $d; for n in $(seq 200); do echo $n > $d/$n; done; done")
            try await world.settle(a)
            // Not `find`, which asks for the kind of the file system, nor `ls -l`, which asks once for a label.
            let walk = """
                for folder, folders, files in os.walk('.'):
                  for path in sorted(os.path.join(folder, name) for name in folders + files):
                    about = os.lstat(path)
                    print(path, about.st_size, about.st_mtime_ns)
                for name in ('none', 'p/none', 'p/none.swp', 'q/.hidden', 'r/s/201', 'r/s/201/none'):
                  print(name, os.path.lexists(name))
                """
            try await a.python(walk)
            let known = try await a.python(walk)
            #expect(known.split(separator: "\n").count == 610)
            #expect(known.hasSuffix("\nr/s/201 False\nr/s/201/none False"))
            let daemon = try #require(a.processID)
            kill(daemon, SIGSTOP)
            defer { kill(daemon, SIGCONT) }
            #expect(try await a.python(walk) == known)
        }
    }

    @Test func remoteChangeIsListedAtOnce() async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), b = try await world.mounted("b")
            try await a.shell("mkdir -p d/e; touch d/1 d/2 d/e/3")
            try await world.settle(a, b)
            let list = "ls -A d d/e"
            try await b.shell(list)
            // A reader with the folder open sees it after a rewind.
            let reader = try b.start("""
                exec /usr/bin/python3 -c "
                import os, time
                folder = os.open('d', os.O_RDONLY)
                os.listdir(folder)
                print('listed', flush=True)
                for _ in range(1500):
                  if 'new' in os.listdir(folder): print('seen', flush=True); break
                  time.sleep(0.02)
                "
                """)
            defer { reader.signal(SIGKILL) }
            try await world.eventually("the reader has begun") { reader.outputSoFar.contains("listed") }
            try await a.shell("touch d/new; mv d/1 d/e/1; rm d/2 d/e/3; mkdir d/g")
            let now = try await a.shell(list)
            try await world.eventually("\(now) is listed") { try await b.shell(list) == now }
            try await world.eventually("the reader sees it") { reader.outputSoFar.contains("seen") }
        }
    }

    @Test func folderEmptiedDuringAListingIsEmpty() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.python("""
                os.mkdir('d')
                for n in range(1500): open(f'd/{n}', 'w').close()
                os.listdir('d')
                for entry in os.scandir('d'): os.unlink(entry.path)
                assert os.listdir('d') == [], os.listdir('d')
                for n in range(1500): open(f'd/{n}', 'w').close()
                for place, entry in enumerate(os.scandir('d')):
                  if entry.name.startswith('z'): continue
                  if place % 2: os.unlink(entry.path)
                  else: os.rename(entry.path, f'd/z{entry.name}')
                left = os.listdir('d')
                assert len(left) == len(set(left)) and all(name.startswith('z') for name in left), left
                """)
            try await a.shell("rm -r d; [ ! -e d ]")
        }
    }

    /// Go's runtime makes every file that epoll accepts non-blocking after its open, and waits for an edge after an
    /// EAGAIN. No edge comes from a file.
    @Test func readAfterLateNonBlockingFlagWaits() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in 10 300000 9000000; do head -c $n /dev/urandom > $n; done")
            try await world.settle(a, b)
            let wanted = try await a.shell("sha256sum *")
            let read = try await b.python(
                """
                import fcntl, hashlib, select
                for name in ('10', '300000', '9000000'):
                    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
                    select.epoll().register(fd, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
                    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
                    found = hashlib.sha256()
                    while data := os.read(fd, 32768): found.update(data)
                    print(found.hexdigest() + '  ' + name)
                """)
            #expect(read == wanted)
        }
    }

    /// Neither at the open, where the kernel might drop pages with waiters, nor at the read.
    @Test func refusedReadWaitsForNoPage() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 60000000 /dev/urandom > f")
            try await world.settle(a, b)
            try await world.shell("mkfifo '\(world.folder)/go'")
            let cloud = try #require(world.cloudProcess)
            // A reader that continues, and is waiting when the cloud stops answering.
            let reader = try b.start(
                """
                exec python3 -c '
                import os
                f = os.open("f", os.O_RDONLY)
                os.pread(f, 10, 0)
                print("begun", flush=True)
                open("../go").read()
                os.pread(f, 4096, 50000000)'
                """)
            try await world.eventually("it reads") { reader.outputSoFar == "begun\n" }
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            try await world.shell("echo > '\(world.folder)/go'")
            try await world.eventually("it waits") {
                try await world.shell("cut -d ' ' -f 3 /proc/\(reader.processID)/stat") == "D"
            }
            let ask = """
                import os, time
                start = time.time()
                f = os.open("f", os.O_RDONLY | FLAGS)
                for place in (50000000, 50004096):
                    try: os.pread(f, 4096, place); raise SystemExit("read")
                    except OSError as e: assert e.errno == ERROR, e
                assert time.time() - start < 5
                """
            let script = ask.replacing("FLAGS", with: "0").replacing("ERROR", with: "35")
            try await b.shell("'\(World.program)' run --no-materialize -- python3 -c '\(script)'")
            kill(cloud, SIGCONT)
            #expect(try await reader.finish().status == 0)
        }
    }
}
