import Glibc
import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

@Suite(.timeLimit(.minutes(1))) struct ProcessTests {
    let folder: TemporaryFolder
    init() throws { folder = try TemporaryFolder() }

    @Test func lockLastsAsLongAsTheObject() throws {
        var lock: ProcessLock? = try ProcessLock(folder("lock"))
        let error = #expect(throws: UbiquityError.self) { try ProcessLock(folder("lock")) }
        #expect(error?.code == .inUse)
        #expect(error?.message.contains("process \(getpid())") == true)
        #expect(try ProcessLock.holder(of: folder("lock")) == getpid())
        withExtendedLifetime(lock) {}
        lock = nil
        #expect(try ProcessLock.holder(of: folder("lock")) == nil)
        #expect(try ProcessLock.holder(of: folder("none")) == nil)
        _ = try ProcessLock(folder("lock"))
    }

    /// A child has all descriptors until its program starts, which may take a while on a busy machine.
    @Test func lockIsReleasedDespiteAChildsDescriptor() throws {
        var lock: ProcessLock? = try ProcessLock(folder("lock"))
        let copies = try FileSystem.entries(of: "/proc/self/fd").compactMap { Int32($0.text) }
            .filter { (try? FileSystem.readLink("/proc/self/fd/\($0)")) == Array(folder("lock").utf8) }
            .map { dup($0) }
        defer { for copy in copies { close(copy) } }
        #expect(copies.count == 1)
        withExtendedLifetime(lock) {}
        lock = nil
        #expect(try ProcessLock.holder(of: folder("lock")) == nil)
        _ = try ProcessLock(folder("lock"))
    }

    @Test func askingForTheHolderDoesNotDisturb() async throws {
        let pool = BlockingPool(name: "ask", threads: 1)
        let isDone = Lock(false)
        let path = folder("lock")
        async let asked: Void = pool.run {
            while !isDone.withLock({ $0 }) { _ = try ProcessLock.holder(of: path) }
        }
        for _ in 0..<500 { _ = try ProcessLock(path) }
        isDone.withLock { $0 = true }
        try await asked
    }

    /// flock(1) in another process holds the lock. When that process is killed, the lock is free.
    @Test func lockOfAnotherProcessEndsWithIt() throws {
        let script = "echo $$ > \(folder("lock")); echo ready > \(folder("fifo")); exec cat \(folder("fifo"))"
        try FileSystem.makeNode(folder("fifo"), mode: 0o010600, device: 0)
        let child = try spawn("/usr/bin/flock", ["flock", "--no-fork", folder("lock"), "sh", "-c", script])
        let fifo = try FileDescriptor.open(folder("fifo"), .readOnly)
        #expect(try fifo.readSome(count: 6) == Array("ready\n".utf8))
        let error = #expect(throws: UbiquityError.self) { try ProcessLock(folder("lock")) }
        #expect(error?.message.contains("process \(child)") == true)
        #expect(try ProcessLock.holder(of: folder("lock")) == child)
        kill(child, SIGKILL)
        var status: Int32 = 0
        #expect(waitpid(child, &status, 0) == child)
        _ = try ProcessLock(folder("lock"))
    }

    @Test func faultPointKillsAtTheNamedVisit() throws {
        #expect(FaultPointsProbe.visits(toDie: "x:kill:3", name: "x") == 3)
        #expect(FaultPointsProbe.visits(toDie: "x:kill:3,y:fail:1", name: "y") == nil)
        #expect(FaultPointsProbe.visits(toDie: "nonsense,x:kill,x:kill:0,x:burn:1", name: "x") == nil)
    }

    /// Tests run in parallel: a hook that makes calls fail must not affect another test.
    @Test func hookAppliesToItsThread() throws {
        FaultPoints.setHook { $0 == "probe.d" ? UbiquityError(.io, "hook") : nil }
        defer { FaultPoints.setHook(nil) }
        let pool = BlockingPool(name: "other", threads: 1)
        let hasFailed = Monitor<Bool?>(nil)
        let isTaken = pool.start {
            let failed = (try? FaultPoints.check("probe.d")) == nil
            hasFailed.withLock { $0 = failed }
            hasFailed.broadcast()
        }
        #expect(isTaken && hasFailed.wait(atMost: .seconds(60)) { $0 } == false)
        #expect(throws: UbiquityError(.io, "hook")) { try FaultPoints.check("probe.d") }
    }

    @Test func hookSeesPlacesAndMakesChecksFail() throws {
        let seen = Lock([String]())
        FaultPoints.setHook { name in
            guard name.hasPrefix("probe.") else { return nil }
            seen.withLock { $0.append(name) }
            return name == "probe.b" ? UbiquityError(.io, "hook") : nil
        }
        defer { FaultPoints.setHook(nil) }
        FaultPoints.reach("probe.a")
        #expect(throws: UbiquityError(.io, "hook")) { try FaultPoints.check("probe.b") }
        try FaultPoints.check("probe.c")
        FaultPoints.setHook(nil)
        try FaultPoints.check("probe.b")
        #expect(seen.withLock { $0 } == ["probe.a", "probe.b", "probe.c"])
    }

    @Test func longSocketPathsCanBeBoundAndConnected() throws {
        let deep = folder(String(repeating: "d", count: 120))
        try FileSystem.makeDirectory(deep)
        let path = Path.join(deep, "control.sock")
        let listener = try bind(try SocketAddressPath(path))
        #expect(try FileSystem.status(path).kind == .socket)
        #expect(listen(listener.rawValue, 1) == 0)
        let address = try SocketAddressPath(path)
        #expect(address.usable.utf8.count <= SocketAddressPath.maximumLength)
        let client = FileDescriptor(owning: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
        let result = withAddress(address.usable) { connect(client.rawValue, $0, $1) }
        #expect(result == 0)
        #expect(try SocketAddressPath("/short").usable == "/short")
        let error = #expect(throws: UbiquityError.self) {
            try SocketAddressPath(Path.join(folder.path, String(repeating: "n", count: 200)))
        }
        #expect(error?.code == .nameTooLong)
    }

    private func bind(_ path: SocketAddressPath) throws -> FileDescriptor {
        let listener = FileDescriptor(owning: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
        let result = withAddress(path.usable) { Glibc.bind(listener.rawValue, $0, $1) }
        #expect(result == 0)
        return listener
    }

    private func withAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    private func spawn(_ program: String, _ arguments: [String]) throws -> pid_t {
        var child: pid_t = 0
        var list = arguments.map { strdup($0) } + [nil]
        defer { for text in list { free(text) } }
        let result = posix_spawn(&child, program, nil, nil, &list, environ)
        guard result == 0 else { throw Errno(rawValue: result) }
        return child
    }
}
