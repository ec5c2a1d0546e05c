import Foundation
import Glibc
import Testing
import UbiquityControl

/// Times in which a cloud is away, or the device itself is.
@Suite struct OutageTests {
    /// How the cloud is away.
    enum Absence: CaseIterable {
        /// Whoever asks it is told so at once.
        case gone
        /// It takes connections and does not answer.
        case silent

        /// What a program that reads is told.
        var text: String { self == .gone ? "Network is unreachable" : "Connection timed out" }
        /// What the file's attribute says of it.
        var reason: String { self == .gone ? "cloud" : "did not answer in time" }
    }

    /// What a process has used so far.
    private struct Use {
        /// Of the processor, its children included that have ended, in seconds.
        var seconds: Double
        /// Memory that is in use, in MiB.
        var memory: Double

        init(of process: pid_t) throws {
            let text = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
            // After the name, which may have spaces in it, the third field of proc(5).
            let fields = text[text.index(after: try #require(text.lastIndex(of: ")")))...].split(separator: " ")
            let ticks = fields[11...14].compactMap { Double($0) }.reduce(0, +)
            seconds = ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
            memory = (Double(fields[21]) ?? 0) * Double(sysconf(Int32(_SC_PAGESIZE))) / 1_048_576
        }
    }

    /// Seconds for which it is looked at.
    private static let outage = 15

    @Test(arguments: Absence.allCases) func aLongOutageCostsNearlyNothing(_ absence: Absence) async throws {
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
            // It takes as long as the network may, 15 s, to tell a reader of silence.
            let reader = try b.start("exec cat large")
            try await a.shell(
                """
                for n in $(seq 40); do echo changed > d/$n; done; for n in $(seq 40); do echo $n > new$n; done
                rm d/50; mv d/49 d/moved; head -c 3000000 /dev/urandom > large; mkdir e
                """)
            try await world.eventually("all of it waits") { try await a.status().uploads.items >= 80 }
            if absence == .gone {
                try await world.eventually("it is known to be away") { try await a.status().cloud.state != .online }
            }
            let daemon = try #require(a.processID)
            let before = try Use(of: daemon)
            // There is nothing to wait for but the time.
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
            #expect(try await b.shell("cat d/40 new40; ls d | wc -l") == "changed\n40\n49")
        }
    }

    /// Stops a process when some MB have come into a folder.
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

    /// Has `f` read, and stops the daemon in the middle of its download.
    private func readerOfWhatStands(_ device: Device, _ daemon: pid_t) async throws -> Command {
        let content = device.containerState + "/content"
        // On a busy machine it may all be here before the next look.
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

    /// As when a laptop is closed and opened again; meanwhile the cloud may have become another process.
    @Test(arguments: [false, true]) func aDownloadGoesOnAfterASuspension(cloudRestarts: Bool) async throws {
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
                // There is nothing to wait for but the time.
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
}
