import CUbiquityShims
import Glibc

/// A job in the queue. Its fields are accessed only under the queue's lock.
final class BlockingJob: @unchecked Sendable {
    enum Outcome { case run, cancelled, refused }
    typealias Finish = @Sendable (Outcome) -> Void

    fileprivate var finish: Finish?
    fileprivate var isCancelled = false
}

/// The waiting jobs, and the threads that run them. It is separate from the pool, so that idle threads do not keep the
/// pool alive.
final class BlockingQueue: Sendable {
    private struct State {
        /// Jobs from `head` on are waiting; those before are taken.
        var jobs: [BlockingJob] = []
        var head = 0
        var threads = 0
        var isClosed = false
    }

    private enum Step {
        case run(BlockingJob.Finish)
        case end
    }

    /// Taken slots kept at the front before the array is compacted.
    private static let maximumTaken = 1024

    private let state = Monitor(State())
    private let maximumWaiting: Int

    init(maximumWaiting: Int) { self.maximumWaiting = maximumWaiting }

    /// Adds a job. `finish` is called exactly once: by a thread, by `cancel`, or at once if the job cannot wait.
    ///
    /// - Returns: Whether the job waits.
    @discardableResult
    func add(_ job: BlockingJob, finish: @escaping BlockingJob.Finish) -> Bool {
        let outcome = state.withLock { state -> BlockingJob.Outcome? in
            if job.isCancelled { return .cancelled }
            guard state.threads > 0, state.jobs.count - state.head < maximumWaiting else { return .refused }
            job.finish = finish
            state.jobs.append(job)
            return nil
        }
        if let outcome { finish(outcome) } else { state.signal() }
        return outcome == nil
    }

    /// Cancels a job that has not started. Its slot in the queue is skipped later.
    func cancel(_ job: BlockingJob) {
        let finish = state.withLock { _ in
            job.isCancelled = true
            defer { job.finish = nil }
            return job.finish
        }
        finish?(.cancelled)
    }

    /// Closes the queue. Threads end once all waiting jobs are done.
    func close() {
        state.withLock { $0.isClosed = true }
        state.broadcast()
    }

    /// Starts as many of the threads as the system allows; with none, every job is refused.
    ///
    /// - Parameter stackSize: Bytes; nil for the system's default.
    func startThreads(_ count: Int, name: String, stackSize: Int?) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        if let stackSize { pthread_attr_setstacksize(&attributes, stackSize) }
        defer { pthread_attr_destroy(&attributes) }
        for _ in 0..<count {
            let start = Unmanaged.passRetained(BlockingThread(queue: self, name: name))
            var thread = pthread_t()
            if pthread_create(&thread, &attributes, blockingThreadMain, start.toOpaque()) == 0 {
                pthread_detach(thread)
                state.withLock { $0.threads += 1 }
            } else {
                start.release()
            }
        }
    }

    /// Runs jobs until the queue is closed and empty.
    fileprivate func work() {
        while case .run(let finish) = state.wait(until: Self.next) { finish(.run) }
    }

    private static func next(_ state: inout State) -> Step? {
        while state.head < state.jobs.count {
            let job = state.jobs[state.head]
            state.head += 1
            if state.head == state.jobs.count || state.head > maximumTaken {
                state.jobs.removeFirst(state.head)
                state.head = 0
            }
            if let finish = job.finish {
                job.finish = nil
                return .run(finish)
            }
        }
        return state.isClosed ? .end : nil
    }
}

/// The argument of a new thread.
private final class BlockingThread: Sendable {
    let queue: BlockingQueue
    let name: String

    init(queue: BlockingQueue, name: String) {
        self.queue = queue
        self.name = name
    }
}

/// A free function, because a closure formed in an isolated context traps on another thread.
private func blockingThreadMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    let thread = Unmanaged<BlockingThread>.fromOpaque(argument).takeRetainedValue()
    CUbiquity_nameThread(thread.name)
    thread.queue.work()
    return nil
}
