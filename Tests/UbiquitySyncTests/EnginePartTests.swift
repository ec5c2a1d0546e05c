import Testing
@testable import UbiquitySync
import UbiquityCore
import UbiquityTestSupport

/// The small parts of the engine, in virtual time.
@Suite struct EnginePartTests {
    private func run(_ body: @escaping @Sendable (VirtualWorld) async throws -> Void) throws {
        let world = VirtualWorld(seed: 1)
        try world.run({ try await body(world) }, end: {})
    }

    // MARK: Backoff

    @Test func waitsGrowAndAreBounded() {
        var backoff = Backoff()
        let random = SeededRandom(1)
        var bound = Backoff.shortest
        for _ in 0..<20 {
            let wait = backoff.next(random)
            #expect(wait >= bound / 2 && wait <= bound)
            bound = min(bound * 2, Backoff.longest)
        }
        backoff.reset()
        #expect(backoff.next(random) <= Backoff.shortest)
    }

    @Test func backoffIsRandomPerDevice() {
        func waits(_ seed: UInt64) -> [Duration] {
            var backoff = Backoff()
            let random = SeededRandom(seed)
            return (0..<110).map { _ in backoff.next(random) }
        }
        let here = waits(1), there = waits(2)
        #expect(zip(here, there).allSatisfy { $0 != $1 })
        for device in [here, there] {
            // At their longest, the delays are between half and the whole: some in each part of that range.
            let late = device.suffix(100), half = Backoff.longest / 2
            #expect(late.allSatisfy { $0 >= half && $0 <= Backoff.longest })
            let eighths = Set(late.map { min(Int(($0 - half) / (half / 8)), 7) })
            #expect(eighths.count == 8)
        }
    }

    // MARK: Signal

    @Test func fireBeforeTheWaitIsNotLost() throws {
        try run { world in
            let signal = Signal()
            signal.fire()
            signal.fire()
            await signal.wait()
            // Two fires were merged.
            await signal.wait(atMost: .seconds(5), VirtualTimekeeper(world))
            #expect(world.uptime == .seconds(5))
        }
    }

    @Test func fireEndsTheWait() throws {
        try run { world in
            let signal = Signal()
            async let waiting: Void = signal.wait(atMost: .seconds(60), VirtualTimekeeper(world))
            try await world.sleep(for: .seconds(2))
            signal.fire()
            await waiting
            #expect(world.uptime == .seconds(2))
        }
    }

    @Test func cancelledWaitEnds() throws {
        try run { _ in
            let signal = Signal()
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await signal.wait() }
                group.cancelAll()
            }
            // The fire is for the next waiter, not for the cancelled one.
            signal.fire()
            await signal.wait()
        }
    }

    // MARK: Broadcast

    @Test func everyWaiterIsNotified() throws {
        try run { world in
            let broadcast = Broadcast()
            let generation = broadcast.generation
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<3 {
                    group.addTask {
                        await broadcast.wait(since: generation, atMost: .seconds(60), VirtualTimekeeper(world))
                    }
                }
                group.addTask {
                    try? await world.sleep(for: .seconds(1))
                    broadcast.fire()
                }
            }
            #expect(world.uptime == .seconds(1))
            await broadcast.wait(since: generation, atMost: .seconds(60), VirtualTimekeeper(world))
            #expect(world.uptime == .seconds(1), "what has changed since is not waited for")
        }
    }

    // MARK: Throttle and problems

    @Test func frequentlyChangedItemIsThrottled() {
        let time = ManualTime()
        let throttle = Throttle(timekeeper: time)
        let key = ItemKey(5)
        for _ in 0..<SyncLimits.burst { throttle.noteCommit(of: key) }
        #expect(throttle.restsUntil(key) == nil)
        throttle.noteCommit(of: key)
        #expect(throttle.restsUntil(key) != nil)
        #expect(throttle.restsUntil(ItemKey(6)) == nil)
        time.advance(SyncLimits.longestThrottle)
        #expect(throttle.restsUntil(key) == nil)
    }

    /// Two programs on two devices change each other's result, each slowly enough by itself.
    @Test func itemChangedInTurnsIsThrottledSooner() {
        let time = ManualTime()
        let throttle = Throttle(timekeeper: time)
        let key = ItemKey(5), other = ItemKey(6)
        throttle.noteAnswer(to: key)
        #expect(throttle.isEmpty)
        var warnings = 0
        for _ in 0..<5 {
            if throttle.noteCommit(of: key) { warnings += 1 }
            throttle.noteCommit(of: other)
            throttle.noteAnswer(to: key)
            time.advance(.seconds(4))
        }
        #expect(warnings == 1)
        #expect(throttle.restsUntil(other) == nil)
        throttle.noteCommit(of: key)
        #expect(throttle.restsUntil(key) != nil)
    }

    @Test func problemIsKeptUntilItsNextAttempt() throws {
        let time = ManualTime()
        let problems = Problems(timekeeper: time, random: SeededRandom(1))
        let key = ItemKey(5)
        problems.note(UbiquityError(.damaged, "bad"), .download, of: key)
        #expect(problems.isHeld(.download, of: key))
        #expect(!problems.isHeld(.upload, of: key))
        let retry = try #require(problems.nextRetry(.download, after: time.now()))
        #expect(retry > time.now())
        time.advance(Backoff.longest)
        #expect(!problems.isHeld(.download, of: key))
        problems.note(UbiquityError(.damaged, "bad"), .download, of: key)
        #expect(problems.problem(.download, of: key)?.attempts == 2)
        problems.clear(.download, of: key)
        #expect(problems.problem(.download, of: key) == nil)
    }
}
