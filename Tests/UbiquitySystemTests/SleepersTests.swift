import Testing
import UbiquitySystem

@Suite struct SleepersTests {
    @Test func noSleeperWakesEarly() async throws {
        let start = ContinuousClock.now
        try await Sleepers.shared.sleep(for: .milliseconds(30))
        #expect(ContinuousClock.now - start >= .milliseconds(30))
    }

    @Test func cancelledSleepEnds() async throws {
        let sleeping = Task { try await Sleepers.shared.sleep(for: .seconds(Int64.max)) }
        let other = Task { try await Sleepers.shared.sleep(for: .milliseconds(20)) }
        try await other.value
        sleeping.cancel()
        await #expect(throws: CancellationError.self) { try await sleeping.value }
        let never = Task {
            while !Task.isCancelled { await Task.yield() }
            try await Sleepers.shared.sleep(for: .seconds(600))
        }
        never.cancel()
        await #expect(throws: CancellationError.self) { try await never.value }
    }

    @Test func manySleepAndAreCancelled() async throws {
        let woken = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<2_000 {
                group.addTask {
                    let task = Task { try await Sleepers.shared.sleep(for: .milliseconds(1 + number % 50)) }
                    if number.isMultiple(of: 3) { task.cancel() }
                    return (try? await task.value) != nil
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        // Some of the cancelled sleepers had already slept long enough.
        #expect(woken >= 1_333)
    }
}
