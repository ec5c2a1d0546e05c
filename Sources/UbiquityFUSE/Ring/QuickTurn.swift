internal import CFUSE
internal import CUbiquityShims
internal import Glibc

/// Has the quick requests of all cores served one after the other, and answered in that order, as one thread does that
/// reads them from the device (see `ReadingTurn`).
///
/// The kernel asks for attributes while it has others change them, and keeps the answer that comes last: it should be
/// of what was last. They take some microseconds, so that there is nothing to be won by serving two at a time. One that
/// is stuck, in the disk for instance, holds up each of the others for a moment only.
final class QuickTurn: @unchecked Sendable {
    /// Nanoseconds.
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

    /// - Returns: whether it is the caller's turn, to be ended by `end`; false after the moment.
    func begin() -> Bool {
        if pthread_mutex_trylock(mutex) == 0 { return true }
        return CUbiquity_lockWithin(mutex, Self.patience) == 0
    }

    func end() { pthread_mutex_unlock(mutex) }
}
