import CUbiquityShims
import Glibc
import Synchronization

/// A lock for sections of some microseconds.
///
/// A thread that finds it taken spins for a moment before it sleeps. Waking up takes longer than most sections (20 to
/// 50 µs if the core has gone to sleep meanwhile, measured).
package final class BriefTurn: @unchecked Sendable {
    /// Maximum spinning time, nanoseconds.
    private static let longestPatience: Int64 = 100_000
    private let patience: Int64

    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let waitingCount = Atomic(0)
    /// The core on which the last holder acquired the lock.
    private let holderCore = Atomic<Int32>(-1)

    /// - Parameter spins: whether waiters spin before they sleep.
    package init(spins: Bool = true) {
        patience = spins ? Self.longestPatience : 0
        mutex = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    package func take<T>(_ body: () throws -> T) rethrows -> T {
        if pthread_mutex_trylock(mutex) != 0 {
            waitingCount.add(1, ordering: .relaxed)
            // Spinning on the holder's own core would only keep the holder from running.
            let isOwnCore = holderCore.load(ordering: .relaxed) == CUbiquity_core()
            CUbiquity_lockAwake(mutex, isOwnCore ? 0 : patience)
            waitingCount.subtract(1, ordering: .relaxed)
        }
        holderCore.store(CUbiquity_core(), ordering: .relaxed)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }

    /// Acquires the lock for background work: other waiters go first, for a moment. A thread that releases and
    /// reacquires the lock at once would leave them no time to notice.
    package func takeLast<T>(_ body: () throws -> T) rethrows -> T {
        if waitingCount.load(ordering: .relaxed) > 0 {
            let end = CUbiquity_moment(patience)
            while waitingCount.load(ordering: .relaxed) > 0, CUbiquity_moment(0) < end { CUbiquity_pause() }
        }
        return try take(body)
    }
}
