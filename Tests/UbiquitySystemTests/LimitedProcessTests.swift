import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

@Suite(.timeLimit(.minutes(1))) struct LimitedProcessTests {
    let folder: TemporaryFolder
    init() throws { folder = try TemporaryFolder() }

    private func run(
        _ script: String, atMost limit: Duration = .seconds(20), unless isOver: () -> Bool = { false }
    ) throws -> LimitedProcess.Outcome {
        let log = try FileDescriptor.open(folder("log"), [.readWrite, .create])
        return try LimitedProcess.run(
            script: script, ["one", "two 2"], folder: folder.path, log: log, atMost: limit, unless: isOver)
    }

    @Test func outcomeIsReported() throws {
        #expect(try run("echo said; echo more >&2; pwd > where") == .exited(0))
        #expect(try SmallFile.read(folder("log"), limit: 100) == Array("said\nmore\n".utf8))
        #expect(try SmallFile.read(folder("where"), limit: 1000) == Array((folder.path + "\n").utf8))
        #expect(try run("exit 7") == .exited(7))
        #expect(try run("kill -9 $$") == .killed(9))
    }

    @Test func argumentsArePassed() throws {
        #expect(try run("printf '%s.' \"$@\" $0; ls /proc/self/fd | wc -l; wait") == .exited(0))
        // The three standard descriptors, and the folder that ls reads.
        #expect(try SmallFile.read(folder("log"), limit: 100) == Array("one.two 2.sh.4\n".utf8))
    }

    @Test func leftoverProcessesAreKilled() async throws {
        #expect(try run("sleep 1000 & echo $! > child; exit 3") == .exited(3))
        try await expectEnd()
    }

    @Test func timeoutKillsTheProcessGroup() async throws {
        #expect(try run("sleep 1000 & echo $! > child; wait", atMost: .milliseconds(300)) == .outOfTime)
        try await expectEnd()
    }

    @Test func abandonedScriptIsKilledWithItsGroup() async throws {
        let outcome = try run("sleep 1000 & echo $! > child; wait") {
            (try? SmallFile.read(folder("child"), limit: 20))?.contains(UInt8(ascii: "\n")) == true
        }
        #expect(outcome == .ended)
        try await expectEnd()
    }

    private func expectEnd() async throws {
        let text = String(decoding: try SmallFile.read(folder("child"), limit: 20) ?? [], as: UTF8.self)
        let child = try #require(Int32(text.filter(\.isNumber)))
        // The process dies when the kernel schedules it next. Its new parent may not have reaped it yet: then it is a
        // zombie.
        let end = ContinuousClock.now + .seconds(30)
        while let stat = try SmallFile.read("/proc/\(child)/stat", limit: 1000), ContinuousClock.now < end {
            if String(decoding: stat, as: UTF8.self).contains(") Z ") { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try SmallFile.read("/proc/\(child)/stat", limit: 1000) == nil)
    }
}
