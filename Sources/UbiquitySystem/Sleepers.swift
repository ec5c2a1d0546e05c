import CUbiquityShims
import Glibc
import Synchronization
import UbiquityCore

/// Sleeping tasks, all woken by one thread.
///
/// Swift's own sleep sets a kernel timer to an absolute time of the C library's clock. Under a library that shifts the
/// clocks (faketime), that time never comes or is refused, and the device uploads nothing. A timer with a relative time
/// is not affected. It counts the time while a laptop is closed.
package final class Sleepers: Sendable {
    /// The instance of this process. Any number of tasks may sleep.
    package static let shared = Sleepers()

    fileprivate struct Sleeper {
        let number: UInt64
        /// By `CUbiquity_bootTime`.
        let end: Int64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        /// The sleeper that wakes next is last.
        var sleepers: [Sleeper] = []
        /// Sleepers cancelled before they slept.
        var cancelled: Set<UInt64> = []
        var lastNumber: UInt64 = 0
    }

    private let state = Lock(State())
    private let timer: FileDescriptor?
    /// Whether there is a timer, and a thread that waits for it.
    private let isAtWork = Atomic(false)

    init() {
        timer = try? FileDescriptor(owning: check(CUbiquity_timerDescriptor()))
        guard timer != nil else { return }
        let argument = Unmanaged.passRetained(self).toOpaque()
        var thread = pthread_t()
        // The thread never ends.
        guard pthread_create(&thread, nil, sleepersMain, argument) == 0 else { return }
        pthread_detach(thread)
        isAtWork.store(true, ordering: .relaxed)
    }

    /// Sleeps for a duration. Throws `CancellationError`.
    package func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        guard duration > .zero else { return await Task.yield() }
        guard isAtWork.load(ordering: .relaxed) else { return try await Task.sleep(for: duration) }
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let (end, isPast) = CUbiquity_bootTime().addingReportingOverflow(duration.wholeNanoseconds)
        // Removes a cancellation that arrived right after the wake-up.
        defer { state.withLock { _ = $0.cancelled.remove(number) } }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                add(Sleeper(number: number, end: isPast ? .max : end, continuation: continuation))
            }
        } onCancel: {
            cancel(number)
        }
    }

    private func add(_ sleeper: Sleeper) {
        let isCancelled = state.withLock { state in
            if state.cancelled.remove(sleeper.number) != nil { return true }
            let place = state.sleepers.first(notAfter: sleeper.end)
            state.sleepers.insert(sleeper, at: place)
            if place == state.sleepers.count - 1 { setTimer(state) }
            return false
        }
        if isCancelled { sleeper.continuation.resume(throwing: CancellationError()) }
    }

    private func cancel(_ number: UInt64) {
        let sleeper = state.withLock { state -> Sleeper? in
            guard let place = state.sleepers.firstIndex(where: { $0.number == number }) else {
                // The task has not slept yet, or has just woken.
                state.cancelled.insert(number)
                return nil
            }
            return state.sleepers.remove(at: place)
        }
        sleeper?.continuation.resume(throwing: CancellationError())
    }

    /// The timer may fire early, for a sleeper that was cancelled.
    private func setTimer(_ state: State) {
        guard let timer, let next = state.sleepers.last else { return }
        _ = CUbiquity_setTimer(timer.rawValue, max(1, next.end - CUbiquity_bootTime()))
    }

    /// Wakes due sleepers, in an endless loop.
    fileprivate func work() {
        guard let timer else { return }
        while true {
            _ = try? timer.waitUntilReadable(milliseconds: -1)
            var count: UInt64 = 0
            _ = read(timer.rawValue, &count, 8)
            for sleeper in takeDue() { sleeper.continuation.resume() }
        }
    }

    private func takeDue() -> [Sleeper] {
        state.withLock { state in
            let now = CUbiquity_bootTime()
            let first = state.sleepers.first(notAfter: now)
            let due = state.sleepers[first...].reversed()
            state.sleepers.removeSubrange(first...)
            setTimer(state)
            return Array(due)
        }
    }
}

extension [Sleepers.Sleeper] {
    /// Returns the first index whose sleeper wakes no later than `end`.
    fileprivate func first(notAfter end: Int64) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].end <= end { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

private func sleepersMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    CUbiquity_nameThread("sleepers")
    Unmanaged<Sleepers>.fromOpaque(argument).takeRetainedValue().work()
    return nil
}
