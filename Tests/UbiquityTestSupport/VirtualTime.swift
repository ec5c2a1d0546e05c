package import UbiquityCore
internal import UbiquitySystem

/// Runs the tasks of a simulated world on one thread, in an order drawn from a seed, in virtual time.
///
/// A sleeping task costs nothing: when no task can run, time jumps to the next wake-up. All randomness comes from the
/// seed, so a run can be repeated exactly.
package final class VirtualWorld: Sendable {
    private struct Sleeper {
        var wakesAt: Duration
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var ready: [(executor: VirtualExecutor, job: UnownedJob)] = []
        var held: [(executor: VirtualExecutor, job: UnownedJob)] = []
        var sleepers: [UInt64: Sleeper] = [:]
        var cancelled: Set<UInt64> = []
        var nextSleeper: UInt64 = 0
        var uptime = Duration.zero
        var steps = 0
        var isEnded = false
    }

    /// The wall clock at uptime zero: 2027-01-15T08:00:00Z. Far from the present, so that no file looks as if it was
    /// changed just now.
    package static let epoch = Timestamp(seconds: 1_800_000_000, nanoseconds: 0)
    /// A run that needs more turns is in an endless loop.
    private static let maximumSteps = 300_000

    private let state = Lock(State())
    package let random: SeededRandom
    package let trace = Trace()

    package init(seed: UInt64) { random = SeededRandom(seed) }

    package var uptime: Duration { state.withLock { $0.uptime } }
    package var steps: Int { state.withLock { $0.steps } }

    // MARK: Running

    /// Runs `body` and all its tasks until `body` returns. Call this on a thread that may be blocked.
    /// - Parameter end: cancels the remaining tasks.
    package func run(_ body: @escaping @Sendable () async throws -> Void, end: () -> Void) throws {
        defer {
            trace.end()
            end()
            drain()
        }
        let outcome = Lock<Result<Void, any Error>?>(nil)
        let executor = VirtualExecutor(world: self, name: "test")
        Task(executorPreference: executor) {
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            outcome.withLock { $0 = result }
        }
        while outcome.withLock({ $0 == nil }) { try step() }
        try outcome.withLock { try $0?.get() }
    }

    private func step() throws {
        if let (executor, job) = nextJob() { return executor.run(job) }
        guard wakeFirst() else {
            throw UbiquityError(.invalid, "the simulated world stands still: every task waits and none sleeps")
        }
        guard steps < Self.maximumSteps else {
            throw UbiquityError(.invalid, "the simulated world made \(Self.maximumSteps) steps and does not end")
        }
    }

    private func nextJob() -> (VirtualExecutor, UnownedJob)? {
        let count = state.withLock { state in
            let held = state.ready.filter { $0.executor.isFrozen }
            if !held.isEmpty {
                state.held += held
                state.ready.removeAll { $0.executor.isFrozen }
            }
            return state.ready.count
        }
        guard count > 0 else { return nil }
        let choice = count == 1 ? 0 : random.below(count)
        let (time, next) = state.withLock { state in
            state.steps += 1
            return (state.uptime, state.ready.remove(at: choice))
        }
        trace.mix(next.executor.name, UInt64(count), time)
        return next
    }

    private func wakeFirst() -> Bool {
        let woken = state.withLock { state -> Sleeper? in
            guard let first = state.sleepers.min(by: { ($0.value.wakesAt, $0.key) < ($1.value.wakesAt, $1.key) })
            else { return nil }
            state.sleepers[first.key] = nil
            state.uptime = max(state.uptime, first.value.wakesAt)
            return first.value
        }
        woken?.continuation.resume()
        return woken != nil
    }

    /// Lets frozen and remaining tasks end: no task, and no file that a task has open, outlives the world.
    private func drain() {
        state.withLock { state in
            state.isEnded = true
            state.ready += state.held
            state.held = []
        }
        for _ in 0..<100_000 {
            let next = state.withLock { $0.ready.isEmpty ? nil : $0.ready.removeFirst() }
            if let next {
                next.executor.run(next.job)
            } else if !endFirstSleep() {
                return
            }
        }
    }

    private func endFirstSleep() -> Bool {
        let sleeper = state.withLock { state in
            state.sleepers.keys.min().flatMap { state.sleepers.removeValue(forKey: $0) }
        }
        sleeper?.continuation.resume(throwing: CancellationError())
        return sleeper != nil
    }

    fileprivate func enqueue(_ job: UnownedJob, on executor: VirtualExecutor) {
        state.withLock { $0.ready.append((executor, job)) }
    }

    // MARK: Sleeping

    package func sleep(for duration: Duration) async throws {
        let id = state.withLock { state in
            state.nextSleeper += 1
            return state.nextSleeper
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let isCancelled = state.withLock { state in
                    if state.cancelled.remove(id) != nil || state.isEnded { return true }
                    state.sleepers[id] = Sleeper(
                        wakesAt: state.uptime + max(.zero, duration), continuation: continuation)
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            let sleeper = state.withLock { state in
                let sleeper = state.sleepers.removeValue(forKey: id)
                if sleeper == nil { state.cancelled.insert(id) }
                return sleeper
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
        state.withLock { _ = $0.cancelled.remove(id) }
    }

    /// Lets other tasks run.
    package func pause() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in continuation.resume() }
    }
}

/// The executor of one device's tasks. After it is frozen they never run again, as after `kill -9`: not even their
/// clean-up. (At the end of the world they are released.)
package final class VirtualExecutor: TaskExecutor {
    let world: VirtualWorld
    let name: String
    private let frozen = Lock(false)

    package init(world: VirtualWorld, name: String) {
        self.world = world
        self.name = name
    }

    package var isFrozen: Bool { frozen.withLock { $0 } }
    package func freeze() { frozen.withLock { $0 = true } }

    package func enqueue(_ job: consuming ExecutorJob) { world.enqueue(UnownedJob(job), on: self) }

    fileprivate func run(_ job: UnownedJob) { job.runSynchronously(on: asUnownedTaskExecutor()) }
}

/// The clock of one device: virtual, and perhaps wrong.
package final class VirtualTimekeeper: Timekeeper {
    private let world: VirtualWorld
    private let skew: Lock<Duration>

    /// - Parameter skew: the lead of the wall clock over the cloud's.
    package init(_ world: VirtualWorld, skew: Duration = .zero) {
        self.world = world
        self.skew = Lock(skew)
    }

    package func now() -> Timestamp {
        let elapsed = world.uptime + skew.withLock { $0 }
        let (seconds, attoseconds) = elapsed.components
        return Timestamp(
            seconds: VirtualWorld.epoch.seconds + seconds, nanoseconds: attoseconds / 1_000_000_000)
    }

    package func uptime() -> Duration { world.uptime }
    package func sleep(for duration: Duration) async throws { try await world.sleep(for: duration) }
}
