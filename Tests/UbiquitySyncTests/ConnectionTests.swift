import Testing
import UbiquityCore
import UbiquitySystem

@testable import UbiquitySync

@Suite struct ConnectionTests {
    /// Whichever of them waits already when the pause ends, and which has only looked whether there is one.
    @Test func bothLoopsHearOfAChange() async {
        let time = SystemTimekeeper()
        let connection = Connection(timekeeper: time, random: SystemRandom())
        connection.setPaused(true)
        let seen = connection.changed.generation, start = ContinuousClock.now
        let first = Task { await connection.changed.wait(since: seen, atMost: .seconds(60), time) }
        connection.setPaused(false)
        await first.value
        await connection.changed.wait(since: seen, atMost: .seconds(60), time)
        #expect(ContinuousClock.now - start < .seconds(30))
    }
}
