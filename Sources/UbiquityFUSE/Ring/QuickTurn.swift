internal import CFUSE
internal import CUbiquityShims
internal import Glibc

/// Serves the quick requests of all cores one after the other, and answers them in that order, as a single thread
/// reading from the device would (see `ReadingTurn`).
///
/// The kernel asks for attributes while other requests change them, and keeps the answer that arrives last. That must
/// be the latest state. Quick requests take some microseconds, so serving two in parallel gains nothing. A request that
/// is stuck, in the disk for instance, delays each of the others only for a moment.
final class QuickTurn: @unchecked Sendable {
    /// In nanoseconds.
    private static let patience: Int64 = 1_000_000
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>

    init() {
        mutex = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// - Returns: whether the caller has the turn, which `end` ends; false after the time limit.
    func begin() -> Bool {
        if pthread_mutex_trylock(mutex) == 0 { return true }
        return CUbiquity_lockWithin(mutex, Self.patience) == 0
    }

    func end() { pthread_mutex_unlock(mutex) }
}
