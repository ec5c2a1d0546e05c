import Dispatch
import Testing
import UbiquityCore
@testable import UbiquitySystem
import UbiquityTestSupport

@Suite struct ProcessLockTests {
    /// A process that ends has taken its number away, and holds the lock for a moment more: on a busy machine for some
    /// milliseconds.
    @Test func endingHolderIsWaitedFor() throws {
        let folder = try TemporaryFolder(), path = folder("lock")
        let ending = try FileDescriptor.openFile(path, [.readWrite, .create])
        try #require(try ending.tryLock(.exclusive))
        // Not on one of the pool's few threads, of which the one below waits.
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(100)) { try? ending.unlock() }
        let lock = try ProcessLock(path)
        #expect(try ProcessLock.holder(of: path) == ProcessHost.id)
        withExtendedLifetime(lock) {}
        // Who is named is not waited for.
        #expect(throws: UbiquityError.self) { _ = try ProcessLock(path) }
    }

    @Test func markedLockShowsThatItsHolderIsEnding() throws {
        let folder = try TemporaryFolder(), path = folder("lock")
        let lock = try ProcessLock(path)
        #expect(try ProcessLock.state(of: path)?.isEnding == false)
        lock.markEnding()
        #expect(try ProcessLock.state(of: path) == ProcessLock.Holder(process: ProcessHost.id, isEnding: true))
        #expect(try ProcessLock.holder(of: path) == ProcessHost.id)
        withExtendedLifetime(lock) {}
    }

    @Test func nextHolderOfAMarkedLockIsNotEnding() throws {
        let folder = try TemporaryFolder(), path = folder("lock")
        var lock: ProcessLock? = try ProcessLock(path)
        lock?.markEnding()
        lock = nil
        #expect(try ProcessLock.state(of: path) == nil)
        lock = try ProcessLock(path)
        #expect(try ProcessLock.state(of: path)?.isEnding == false)
        withExtendedLifetime(lock) {}
    }
}
