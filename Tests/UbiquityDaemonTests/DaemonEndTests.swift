import Testing
import UbiquityCore
@testable import UbiquityDaemon
import UbiquitySystem

/// The waits of a mount for an ending daemon. Time is counted in checks of the lock.
@Suite struct DaemonEndTests {
    /// A container's lock that this process holds.
    private final class Held {
        let path: String
        private(set) var lock: ProcessLock?
        private(set) var looks = 0
        /// Actions by the number of checks before them.
        var events: [Int: (Held) -> Void] = [:]

        init(_ folder: String) throws {
            path = folder + "/lock"
            lock = try ProcessLock(path)
        }

        func markEnding() { lock?.markEnding() }
        func release() { lock = nil }

        func look() {
            looks += 1
            events[looks]?(self)
        }

        func wait(isMounted: Bool) throws -> ProcessLock.Holder? {
            let end = DaemonEnd(lock: path, isMounted: { () throws(UbiquityError) in isMounted }, pause: { self.look() })
            return try end.wait()
        }
    }

    @Test func servingDaemonIsNotWaitedFor() throws {
        try withTemporaryFolder { (folder: String) throws in
            let held = try Held(folder)
            #expect(try held.wait(isMounted: true)?.process == ProcessHost.id)
            #expect(held.looks == 0)
        }
    }

    @Test func endingDaemonIsWaitedFor() throws {
        try withTemporaryFolder { (folder: String) throws in
            let held = try Held(folder)
            held.events = [3: { $0.markEnding() }, DaemonEnd.maximumLooksBeforeMark + 50: { $0.release() }]
            #expect(try held.wait(isMounted: false) == nil)
        }
    }

    /// After SIGTERM the daemon is ending, though its mount may still be in the table.
    @Test func endingDaemonIsWaitedForWhileItIsMounted() throws {
        try withTemporaryFolder { (folder: String) throws in
            let held = try Held(folder)
            held.markEnding()
            held.events = [20: { $0.release() }]
            #expect(try held.wait(isMounted: true) == nil)
        }
    }

    @Test func waitForAnEndingDaemonHasALimit() throws {
        try withTemporaryFolder { (folder: String) throws in
            let held = try Held(folder)
            held.markEnding()
            #expect(try held.wait(isMounted: false)?.isEnding == true)
            #expect(held.looks == DaemonEnd.maximumLooks)
        }
    }

    /// Programs use a lazily unmounted mount: its daemon does not end.
    @Test func daemonThatIsNotEndingIsRefusedSoon() throws {
        try withTemporaryFolder { (folder: String) throws in
            let held = try Held(folder)
            #expect(try held.wait(isMounted: false)?.isEnding == false)
            #expect(held.looks == DaemonEnd.maximumLooksBeforeMark)
        }
    }
}
