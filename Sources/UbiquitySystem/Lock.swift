import Glibc

/// A state that one thread at a time may access. The only kind of mutex in the program.
///
/// It uses a pthread mutex instead of `Synchronization.Mutex`, whose fair hand-off degrades from 14 ns to microseconds
/// when there are more busy threads than cores. Sections are short, never block and never contain `await`. The lock is
/// not recursive. `withLock` must not return a reference into the state.
///
/// It is public, like some other frequently used types: the compiler does not specialize `package` declarations from
/// other modules, `@inlinable` or not (Swift 6.3.1), and calls them as generic code.
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
