internal import Glibc

/// The thread in libfuse's loop that waits for its workers to end.
///
/// It waits in sem_wait, which a signal interrupts. It then checks whether the session is to end, and cancels the
/// workers that still read. The signal is SIGURG: nothing here uses it, and it is ignored unless it has a handler.
struct LoopThread: Sendable {
    private let thread: pthread_t

    /// The calling thread, prepared for interruption.
    static func current() -> LoopThread {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        // Without SA_RESTART, so that the wait ends.
        sigaction(SIGURG, &action, nil)
        return LoopThread(thread: pthread_self())
    }

    /// Call only while the thread is known to be in the loop.
    static func interrupt(_ loop: LoopThread) { pthread_kill(loop.thread, SIGURG) }
}
