import CUbiquityShims
import Glibc
import Synchronization

/// The turn with something that threads want for some microseconds each.
///
/// Who finds it taken looks for a moment whether it is given back before he sleeps: to be woken takes longer than most
/// turns (20 to 50 µs on a core that has gone to sleep meanwhile, measured).
package final class BriefTurn: @unchecked Sendable {
    /// Nanoseconds that are waited awake.
    private static let patience: Int64 = 100_000

    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let waitingCount = Atomic(0)
    /// The core that the last one ran on when he got it.
    private let holderCore = Atomic<Int32>(-1)

    package init() {
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
            // On the holder's own core it is he who is to go on.
            let isOwnCore = holderCore.load(ordering: .relaxed) == CUbiquity_core()
            CUbiquity_lockAwake(mutex, isOwnCore ? 0 : Self.patience)
            waitingCount.subtract(1, ordering: .relaxed)
        }
        holderCore.store(CUbiquity_core(), ordering: .relaxed)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }

    /// For a series of turns that nobody waits for: the others that want it have theirs first, for a moment. Whoever
    /// gives it back and takes it again at once would leave them no time to see that it is free.
    package func takeLast<T>(_ body: () throws -> T) rethrows -> T {
        if waitingCount.load(ordering: .relaxed) > 0 {
            let end = CUbiquity_moment(Self.patience)
            while waitingCount.load(ordering: .relaxed) > 0, CUbiquity_moment(0) < end { CUbiquity_pause() }
        }
        return try take(body)
    }
}
