import Foundation
import Glibc
import Testing
import UbiquityControl

/// Times without the cloud, or with a suspended device.
@Suite struct OutageTests {
    /// The kinds of an outage.
    enum Absence: CaseIterable {
        /// Connections are refused at once.
        case gone
        /// It accepts connections and does not answer.
        case silent

        /// The error of a program that reads.
        var text: String { self == .gone ? "Network is unreachable" : "Connection timed out" }
        /// The file's attribute about it.
        var reason: String { self == .gone ? "cloud" : "did not answer in time" }
    }

    /// The resources that a process has used so far.
    private struct Use {
        /// Processor time in seconds, with exited children.
        var seconds: Double
        /// Memory in use, in MiB.
        var memory: Double

        init(of process: pid_t) throws {
            let text = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
            // After the name, which may contain spaces, the third field of proc(5).
            let fields = text[text.index(after: try #require(text.lastIndex(of: ")")))...].split(separator: " ")
            let ticks = fields[11...14].compactMap { Double($0) }.reduce(0, +)
            seconds = ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
            memory = (Double(fields[21]) ?? 0) * Double(sysconf(Int32(_SC_PAGESIZE))) / 1_048_576
        }
    }

    /// Length of the outage in seconds.
    private static let outage = 15

    /// Waits until a process hardly uses the processor. On a busy machine the daemon still processes events when every
    /// change is already known as pending.
    private func waitUntilAtRest(_ process: pid_t, _ world: World) async throws {
        var last = try Use(of: process), quietLooks = 0
        try await world.eventually("it is idle", within: 60) {
            try await Task.sleep(for: .milliseconds(500))
            let now = try Use(of: process)
            quietLooks = now.seconds - last.seconds < 0.1 ? quietLooks + 1 : 0
            last = now
            return quietLooks == 4
        }
    }

    @Test(arguments: Absence.allCases) func longOutageUsesLittleProcessorTime(_ absence: Absence) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; for n in $(seq 50); do echo $n > d/$n; done; head -c 300000 /dev/urandom > large")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            switch absence {
            case .gone: try await world.blockCloud()
            case .silent: kill(cloud, SIGSTOP)
            }
            defer { if absence == .silent { kill(cloud, SIGCONT) } }
            // A silent cloud is an error for readers only after the network's limit, 15 s.
            let reader = try b.start("exec cat large")
            try await a.shell(
                """
                for n in $(seq 40); do echo changed > d/$n; done; for n in $(seq 40); do echo $n > new$n; done
                rm d/50; mv d/49 d/moved; head -c 3000000 /dev/urandom > large; mkdir e
                """)
            try await world.eventually("all of it waits") { try await a.status().uploads.items >= 80 }
            if absence == .gone {
                try await world.eventually("the outage is known") { try await a.status().cloud.state != .online }
            }
            let daemon = try #require(a.processID)
            try await waitUntilAtRest(daemon, world)
            let before = try Use(of: daemon)
            // Only the time matters here.
            try await Task.sleep(for: .seconds(Self.outage))
            let after = try Use(of: daemon)
            #expect(a.processID == daemon)
            #expect(after.seconds - before.seconds < 1, "\(before) became \(after)")
            #expect(after.memory - before.memory < 16, "\(before) became \(after)")
            #expect(try await a.status().uploads.items >= 80)
            let read = try await reader.finish(within: 60)
            #expect(read.status == 1 && read.err.contains(absence.text), "\(read)")
            try await b.waitUntil(
                "getfattr --only-values -n user.ubiquity.downloading-error large | grep -q '\(absence.reason)'")
            switch absence {
            case .gone: world.unblockCloud()
            case .silent: kill(cloud, SIGCONT)
            }
            try await world.settle(a, b, within: 120)
            expectSame(
                [
                    try await Tools.picture(of: a.mountPoint, in: world),
                    try await Tools.picture(of: b.mountPoint, in: world),
                ], "two devices")
            let content = try await b.shell("cat d/40 new40; ls d | wc -l")
            let names = try await b.shell("ls -x . d")
            #expect(content == "changed\n40\n49", "\(names)")
        }
    }

    /// A program that waits for a copy of a placeholder blocks no other program.
    @Test func copyOfAPlaceholderBlocksOnlyItsProgram() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; head -c 30000000 /dev/urandom > d/large; echo x > d/x")
            try await world.settle(a, b)
            try await b.shell("head -c 10 d/large > /dev/null")
            try await b.waitUntilIdle()
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            let copy = try b.start(
                """
                exec python3 -c 'import os
                source, target = os.open("d/large", os.O_RDONLY), os.open("d/copy", os.O_WRONLY | os.O_CREAT)
                done = 20_000_000
                while done < 30_000_000:
                    count = os.copy_file_range(source, target, 30_000_000 - done, done, done)
                    assert count > 0
                    done += count'
                """)
            var looks = 0
            try await world.eventually("it waits") {
                looks = copy.isUsing("large") ? looks + 1 : 0
                return looks == 5
            }
            // The network's own limit is 15 s.
            try await b.shell("ln d/copy kept; rm d/copy; ls -l d; cat d/absent || true", within: 8)
            kill(cloud, SIGCONT)
            let outcome = try await copy.finish(within: 60)
            #expect(outcome.status == 0, "\(outcome)")
            try await b.shell("cmp -i 20000000 kept '\(a.mountPoint)/d/large'")
        }
    }

    /// Stops a process after some MB have been written into a folder.
    private static let stopper = """
        import os, signal, sys, time
        def blocks(path):
            try: return os.lstat(path).st_blocks
            except FileNotFoundError: return 0
        def size():
            return sum(blocks(os.path.join(at, name)) for at, _, names in os.walk(sys.argv[1]) for name in names)
        print("looking", flush=True)
        end = time.monotonic() + 50
        while size() < 6000:
            assert time.monotonic() < end
            time.sleep(0.001)
        os.kill(int(sys.argv[2]), signal.SIGSTOP)
        """

    /// Starts a read of `f`, and stops the daemon in the middle of its download.
    private func readerOfWhatStands(_ device: Device, _ daemon: pid_t) async throws -> Command {
        let content = device.containerState + "/content"
        // On a busy machine the download may be complete before the next check.
        for _ in 0..<20 {
            let stopper = try device.world.start(["/usr/bin/python3", "-c", Self.stopper, content, "\(daemon)"])
            try await device.world.eventually("it looks") { stopper.outputSoFar == "looking\n" }
            let reader = try device.start("exec sha256sum < f")
            try #require(try await stopper.finish().status == 0)
            let here = try #require(Int(try await device.world.shell("du -sk '\(content)' | cut -f1")))
            if here < 60_000 { return reader }
            kill(daemon, SIGCONT)
            try await reader.finish()
            try await device.waitFor("downloading-status", "current", of: "f")
            try #require(try await device.ubiquity("evict", "f").status == 0)
        }
        throw Command.Failure(description: "its download was over each time")
    }

    /// Like a laptop that is closed and opened again; meanwhile the cloud may run in another process.
    @Test(arguments: [false, true]) func downloadResumesAfterASuspension(cloudRestarts: Bool) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 80000000 /dev/urandom > f; sha256sum < f > '\(world.folder)/sum'")
            try await world.settle(a, b, within: 120)
            let daemon = try #require(b.processID)
            defer { kill(daemon, SIGCONT) }
            let reader = try await readerOfWhatStands(b, daemon)
            if cloudRestarts {
                let cloud = world.cloudProcess
                try await world.killCloud()
                // The other device starts it.
                try await world.eventually("the cloud is back") {
                    world.cloudProcess != nil && world.cloudProcess != cloud
                }
            } else {
                // Only the time matters here.
                try await Task.sleep(for: .seconds(5))
            }
            #expect(reader.isRunning)
            kill(daemon, SIGCONT)
            let outcome = try await reader.finish(within: 120)
            let sum = try await world.shell("cat '\(world.folder)/sum'")
            #expect(outcome.status == 0 && outcome.text == sum, "\(outcome)")
            #expect(b.processID == daemon)
            try await world.settle(a, b)
            try await b.shell("cmp f '\(a.mountPoint)/f'; echo on > g")
            try await a.waitUntil("test -e g")
        }
    }

    /// Its folder is removed or moved while the cloud runs: a new cloud starts there, and gets everything from this
    /// device.
    @Test func removedCloudFolderStartsANewCloud() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo one > one")
            try await world.settle(a, b)
            try await b.shell("cat one")
            let old = try #require(world.cloudProcess)
            try #require(rename(world.cloudData, world.cloudData + ".away") == 0)
            try await a.shell("echo precious > precious")
            try await b.shell("echo more > more")
            try await world.eventually("another cloud runs there", within: 60) {
                world.cloudProcess.map { $0 != old } ?? false
            }
            try await world.eventually("the first has ended", within: 60) { kill(old, 0) != 0 }
            try await world.settle(a, b, within: 120)
            for device in [a, b] { #expect(try await device.shell("cat one precious more") == "one\nprecious\nmore", "\(device.name)") }
            try await a.ubiquity("evict", "precious")
            #expect(try await a.shell("cat precious") == "precious")
            try await b.shell("rm -r '\(world.cloudData).away'")
        }
    }

    /// The open connections are dead without a notice: a later save is uploaded over a new one within seconds.
    @Test(.enabled(if: getuid() == 0, "a network of one's own takes root"))
    func saveIsUploadedAfterAnAddressChange() async throws {
        try await World.run { world in
            // Names of interfaces have 15 characters at most.
            let name = "u\(getpid())\(UInt16.random(in: 0...UInt16.max))", program = World.program
            let outcome = try await world.attempt(
                [
                    "/bin/bash", "-ec",
                    """
                    cd '\(world.folder)'; mkdir m
                    ip netns add \(name)
                    end() {
                        '\(program)' unmount --lazy m || true
                        kill $cloud || true
                        ip link del \(name) || true
                        ip netns del \(name)
                    }
                    trap end EXIT
                    ip link add \(name) type veth peer name inside netns \(name)
                    ip addr add 198.18.7.1/24 dev \(name); ip link set \(name) up
                    within() { nsenter --net=/run/netns/\(name) "$@"; }
                    within ip addr add 198.18.7.2/24 dev inside; within ip link set inside up; within ip link set lo up
                    '\(program)' serve --data served --listen 198.18.7.1:7177 --insecure > listening & cloud=$!
                    until grep -q listening listening; do kill -0 $cloud; sleep 0.1; done
                    '\(program)' account create ann --data served > token
                    within '\(program)' login http://198.18.7.1:7177 --insecure --account ann --state s --token-file token
                    within '\(program)' mount --state s m
                    echo before > m/f; '\(program)' wait --uploaded m
                    within ip addr flush dev inside; within ip addr add 198.18.7.3/24 dev inside
                    # The limits of the connection are 60 s and more.
                    echo after > m/f; '\(program)' wait --uploaded --timeout 30 m
                    """,
                ], within: 120)
            #expect(outcome.status == 0, "\(outcome)")
        }
    }
}
