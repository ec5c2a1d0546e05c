import Testing
import UbiquityCore
import UbiquitySystem

@testable import UbiquitySync

@Suite struct ConnectionTests {
    /// One loop may already wait when the pause ends, and the other may only have checked for it.
    @Test func bothLoopsAreNotifiedOfAChange() async throws {
        let time = SystemTimekeeper()
        let connection = Connection(timekeeper: time, random: SystemRandom())
        connection.setPaused(true)
        let seen = connection.changed.generation, heard = Lock(0)
        let loops = (0..<2).map { _ in
            Task {
                await connection.changed.wait(since: seen, atMost: .seconds(3600), time)
                heard.withLock { $0 += 1 }
            }
        }
        connection.setPaused(false)
        for _ in 0..<3000 where heard.withLock({ $0 }) < 2 { try await time.sleep(for: .milliseconds(100)) }
        #expect(heard.withLock { $0 } == 2)
        for loop in loops { loop.cancel() }
    }
}
