internal import Glibc

/// The thread that waits in libfuse's loop for its workers to end.
///
/// It waits in sem_wait, which a signal interrupts; then it looks whether the session is to end, and cancels the
/// workers that are still reading. The signal is SIGURG, which nothing here uses and which is ignored unless it has a
/// handler.
struct LoopThread: Sendable {
    private let thread: pthread_t

    /// The calling thread, made ready to be interrupted.
    static func current() -> LoopThread {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        // Without SA_RESTART: the wait must end.
        sigaction(SIGURG, &action, nil)
        return LoopThread(thread: pthread_self())
    }

    /// To be called only while the thread is known to be in the loop.
    static func interrupt(_ loop: LoopThread) { pthread_kill(loop.thread, SIGURG) }
}
