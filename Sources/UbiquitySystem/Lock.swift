import Glibc

/// A state that one thread at a time may touch. The one kind of mutex in the program.
///
/// It is a pthread mutex and not `Synchronization.Mutex`, whose fair hand-off collapses from 14 ns to microseconds
/// when there are more busy threads than cores. Sections are short, never block and never contain `await`. The lock
/// is not recursive. What `withLock` returns must not be a reference into the state.
///
/// Public, as some values are that are used as often: what is `package` the compiler does not see into from other
/// modules, `@inlinable` or not (Swift 6.3.1), and calls through generic code.
public final class Lock<State>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline let state: UnsafeMutablePointer<State>

    public init(_ initial: sending State) {
        mutex = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        state = .allocate(capacity: 1)
        state.initialize(to: initial)
    }

    deinit {
        state.deinitialize(count: 1)
        state.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    @inlinable
    public func withLock<R, E: Error>(_ body: (inout State) throws(E) -> R) throws(E) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&state.pointee)
    }
}
