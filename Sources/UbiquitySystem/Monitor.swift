import CUbiquityShims
import Glibc
import UbiquityCore

/// A `Lock` whose holder can wait for the state to change. Use it only on this program's own threads: it blocks.
public final class Monitor<State>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline let condition: UnsafeMutablePointer<pthread_cond_t>
    @usableFromInline let state: UnsafeMutablePointer<State>

    public init(_ initial: sending State) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        condition = .allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        pthread_cond_init(condition, nil)
        state = .allocate(capacity: 1)
        state.initialize(to: initial)
    }

    deinit {
        state.deinitialize(count: 1)
        state.deallocate()
        pthread_cond_destroy(condition)
        condition.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    @inlinable
    public func withLock<R, E: Error>(_ body: (inout State) throws(E) -> R) throws(E) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&state.pointee)
    }

    /// Blocks until `body` returns a value. `body` runs under the lock, at once and again after each `signal`.
    @inlinable
    public func wait<R>(until body: (inout State) -> R?) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&state.pointee) { return result }
            pthread_cond_wait(condition, mutex)
        }
    }

    /// Waits likewise for at most `limit`; returns nil after that.
    public func wait<R>(atMost limit: Duration, until body: (inout State) -> R?) -> R? {
        let deadline = CUbiquity_moment(limit.wholeNanoseconds)
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&state.pointee) { return result }
            if CUbiquity_waitForCondition(condition, mutex, deadline) == ETIMEDOUT { return body(&state.pointee) }
        }
    }

    /// Wakes one waiter.
    public func signal() { pthread_cond_signal(condition) }

    /// Wakes all waiters.
    public func broadcast() { pthread_cond_broadcast(condition) }
}
