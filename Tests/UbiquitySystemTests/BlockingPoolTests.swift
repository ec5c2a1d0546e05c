import Glibc
import Synchronization
import Testing
import UbiquityCore
import UbiquitySystem

@Suite(.timeLimit(.minutes(1))) struct BlockingPoolTests {
    @Test func givesResultsAndErrors() async throws {
        let pool = BlockingPool(name: "test", threads: 2)
        #expect(try await pool.run { 42 } == 42)
        await #expect(throws: Errno.EIO) { try await pool.run { throw Errno.EIO } }
        #expect(try await BlockingPool.inline.run { "here" } == "here")
    }

    /// Three bodies that wait for each other can only end if three run at a time. A fourth must wait.
    @Test func runsAsManyAtATimeAsThreads() async throws {
        struct Count { var running = 0, most = 0, arrived = 0 }
        let pool = BlockingPool(name: "test", threads: 3)
        let count = Monitor(Count())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<12 {
                group.addTask {
                    try await pool.run {
                        count.withLock {
                            $0.running += 1
                            $0.arrived += 1
                            $0.most = max($0.most, $0.running)
                        }
                        count.broadcast()
                        count.wait { $0.arrived >= 3 ? () : nil }
                        count.withLock { $0.running -= 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(count.withLock { $0.most } == 3)
        #expect(count.withLock { $0.arrived } == 12)
    }

    @Test func runsInOrder() async throws {
        let pool = BlockingPool(name: "test", threads: 1)
        let seen = Lock([Int]())
        // Each job waits for a thread twice. On a machine with 20 busy threads that takes 30 ms.
        for number in 0..<300 { try await pool.run { seen.withLock { $0.append(number) } } }
        #expect(seen.withLock { $0 } == Array(0..<300))
    }

    @Test func startedJobsRunInOrderUpToTheLimit() async throws {
        let pool = BlockingPool(name: "test", threads: 1, maximumWaiting: 100)
        let (gate, seen) = (Monitor(false), Lock([Int]()))
        let isRunning = Monitor(false)
        #expect(pool.start {
            isRunning.withLock { $0 = true }
            isRunning.broadcast()
            gate.wait { $0 ? () : nil }
        })
        isRunning.wait { $0 ? () : nil }
        let taken = (0..<150).map { number in pool.start { seen.withLock { $0.append(number) } } }
        #expect(taken == (0..<150).map { $0 < 100 })
        gate.withLock { $0 = true }
        gate.broadcast()
        while seen.withLock(\.count) < 100 { try? await pool.run {} }
        #expect(seen.withLock { $0 } == Array(0..<100))
    }

    @Test func cancelledWhileWaitingIsNotRun() async throws {
        let pool = BlockingPool(name: "test", threads: 1)
        let gate = Monitor(false)
        let (started, start) = AsyncStream<Void>.makeStream()
        let blocker = Task {
            try await pool.run {
                start.finish()
                gate.wait { $0 ? () : nil }
            }
        }
        for await _ in started {}
        let wasRun = Atomic(false)
        let waiting = Task { try await pool.run { wasRun.store(true, ordering: .relaxed) } }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        let unconditional = Task { try await pool.run(evenIfCancelled: true) { 7 } }
        unconditional.cancel()
        gate.withLock { $0 = true }
        gate.signal()
        try await blocker.value
        #expect(try await unconditional.value == 7)
        #expect(try await pool.run { 1 } == 1)
        let ran = wasRun.load(ordering: .relaxed)
        #expect(!ran)
    }

    @Test func refusesJobsBeyondTheLimit() async throws {
        let pool = BlockingPool(name: "test", threads: 1, maximumWaiting: 0)
        let error = await #expect(throws: UbiquityError.self) { try await pool.run {} }
        #expect(error?.code == .tooManyRequests)
    }

    @Test func lockCountsRight() async {
        let total = Lock(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { for _ in 0..<10_000 { total.withLock { $0 += 1 } } } }
        }
        #expect(total.withLock { $0 } == 80_000)
    }

    @Test func monitorGivesUpInTime() {
        let never = Monitor(0)
        #expect(never.wait(atMost: .milliseconds(5)) { $0 == 1 ? true : nil } == nil)
        #expect(never.wait(atMost: .milliseconds(5)) { $0 == 0 ? true : nil } == true)
    }

    @Test func longJobSeesTheCancellation() async throws {
        let pool = BlockingPool(name: "test", threads: 1), (begun, source) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            try await pool.run(asking: { isCancelled in
                source.finish()
                while !isCancelled() { sched_yield() }
            })
        }
        for await _ in begun {}
        task.cancel()
        try await task.value
    }
}
