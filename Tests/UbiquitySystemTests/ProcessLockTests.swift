import Dispatch
import Testing
import UbiquityCore
@testable import UbiquitySystem
import UbiquityTestSupport

@Suite struct ProcessLockTests {
    /// An ending process has removed its number and keeps the lock for a moment more: some milliseconds on a busy
    /// machine.
    @Test func endingHolderIsWaitedFor() throws {
        let folder = try TemporaryFolder(), path = folder("lock")
        let ending = try FileDescriptor.openFile(path, [.readWrite, .create])
        try #require(try ending.tryLock(.exclusive))
        // Not on a thread of the pool: the call below occupies one of its few threads.
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(100)) { try? ending.unlock() }
        let lock = try ProcessLock(path)
        #expect(try ProcessLock.holder(of: path) == ProcessHost.id)
        withExtendedLifetime(lock) {}
        // A holder with a number is not waited for.
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
