import Dispatch
import Testing
import UbiquityCore
@testable import UbiquitySystem

@Suite struct ProcessLockTests {
    /// A process that ends has taken its number away, and holds the lock for a moment more: on a busy machine for some
    /// milliseconds.
    @Test func whoEndsIsWaitedFor() throws {
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
}
