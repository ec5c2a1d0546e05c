internal import CFUSE
internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquityCore
internal import UbiquitySystem

/// The kernel's requests by io_uring (Linux 6.14 and later): each core has a queue, which threads on that core serve.
///
/// Through the device of FUSE any thread takes a request, mostly on another core, which has to be woken for it and
/// then has to wake the program's: a third to a half of what a small request takes (measured: 26 and 14 us for a
/// lookup, 57 and 28 for a rename through libfuse's example). What nobody waits for, that the kernel forgets an inode
/// (but see `RingWork`) or that a program is interrupted, still comes by the device.
package final class RequestRings: Sendable {
    private struct State {
        var refusal: String?
        var libfuse: Pointer?
        var work: RingWork?
        var workers: RequestWorkers?
        var dispatchers: [Dispatcher] = []
    }
    /// libfuse's session and the context of its callbacks.
    private struct Pointer: @unchecked Sendable {
        var session: OpaquePointer
        var context: Unmanaged<SessionContext>
    }

    private let underWay = RequestsUnderWay()
    private let state: Lock<State>
    private let active = Atomic(false)
    private let start = Monitor([UInt16: Bool]())
    private let failure = Lock<(@Sendable (Errno) -> Void)?>(nil)

    /// - Parameter refusal: why they are not wanted; nil if they are.
    package init(refusal: String?) { state = Lock(State(refusal: refusal)) }

    /// Why requests come by the device instead; nil if they do not.
    package var refusal: String? {
        state.withLock { $0.refusal } ?? (areActive ? nil : "the mount has only begun")
    }

    var isWanted: Bool { state.withLock { $0.refusal == nil } }
    var areActive: Bool { active.load(ordering: .relaxed) }

    /// To be called before the session begins.
    /// - Parameter failure: called when requests of a core cannot be answered any more: the connection must end.
    func attach(
        _ session: OpaquePointer, _ context: Unmanaged<SessionContext>, failure: @escaping @Sendable (Errno) -> Void
    ) {
        self.failure.withLock { $0 = failure }
        state.withLock { $0.libfuse = Pointer(session: session, context: context) }
    }

    func answer(_ vector: UnsafePointer<iovec>, count: Int) -> Int? {
        // Also after a refusal: a queue that was slow may have come into use all the same.
        if areActive, let request = underWay.giveBack(vector, count: count) {
            state.withLock { $0.work }?.interrupt(request)
        }
        return underWay.answer(vector, count: count)
    }

    // MARK: Beginning

    func areMissing() { refuse("the kernel does not offer it (it came with Linux 6.14)") }

    private func refuse(_ reason: String) { state.withLock { $0.refusal = $0.refusal ?? reason } }

    /// The kernel has taken the session's answer, and holds all requests until each core's queue has an entry.
    func begin(device: Int32) {
        guard let pointer = state.withLock({ $0.refusal == nil ? $0.libfuse : nil }) else { return }
        let work = RingWork(
            device: device, libfuse: pointer.session, context: pointer.context, underWay: underWay)
        let workers = RequestWorkers(work)
        active.store(true, ordering: .sequentiallyConsistent)
        state.withLock {
            $0.work = work
            $0.workers = workers
        }
        do throws(UbiquityError) {
            let cores = try RingSupport.cores()
            guard work.start("fuse-watch", { work.watchServers() }) else { throw Self.noThread }
            try startDispatchers(cores, work, workers)
            startDirectServers(cores, work)
            pointer.context.takeUnretainedValue().turn.beAtEase()
        } catch {
            refuse("\(error)")
            Self.giveUp(device)
        }
    }

    private func startDispatchers(_ cores: UInt16, _ work: RingWork, _ workers: RequestWorkers) throws(UbiquityError) {
        for core in 0..<cores {
            let dispatcher: Dispatcher
            do throws(Errno) { dispatcher = try Dispatcher(queue: core, work: work, workers: workers) } catch {
                throw UbiquityError(error, doing: "make a queue for requests")
            }
            state.withLock { $0.dispatchers.append(dispatcher) }
            let isStarted = work.start("fuse-queue-\(core)", core: core) { [self] in
                var hasBegun = false
                do throws(Errno) {
                    try dispatcher.run {
                        hasBegun = true
                        report(core, true)
                    }
                } catch { if hasBegun { fail(error, work) } }
                report(core, false)
            }
            guard isStarted else { throw Self.noThread }
        }
        let isRunning = start.wait(atMost: Self.startLimit) { begun in
            begun.count == Int(cores) ? begun.values.allSatisfy { $0 } : nil
        }
        guard isRunning == true else { throw UbiquityError(.notSupported, "the kernel refused the queues") }
    }

    private static let startLimit: Duration = .seconds(10)
    private static let noThread = UbiquityError(.noSpace, "there is no thread to be had")

    private func report(_ core: UInt16, _ isRunning: Bool) {
        start.withLock { $0[core] = isRunning }
        start.broadcast()
    }

    private func startDirectServers(_ cores: UInt16, _ work: RingWork) {
        for _ in 0..<RingSupport.directServers(cores: cores) {
            for core in 0..<cores {
                // Where there are fewer of them, the dispatcher has more to do.
                guard let server = DirectServer(queue: core, work: work) else { return }
                work.watch.add(server)
                _ = work.start("fuse-core-\(core)", core: core) { [self] in
                    do throws(Errno) { try server.run() } catch { if server.hasRequest { fail(error, work) } }
                }
            }
        }
    }

    /// A thread could not go on that has requests.
    private func fail(_ error: Errno, _ work: RingWork) {
        // These are the connection's end, and what does not begin is the refusal's.
        let ends: [Errno] = [.ENOTCONN, .ENODEV, .ECANCELED, Errno(rawValue: ECONNABORTED)]
        guard !work.isEnding, isWanted, !ends.contains(error) else { return }
        failure.withLock { $0 }?(error)
    }

    /// Has the kernel use the device after all: a registration that fails does that.
    private static func giveUp(_ device: Int32) {
        guard let entry = RingEntry(queue: .max, number: 0), var ring = try? KernelRing(submissions: 2, completions: 4)
        else { return }
        do throws(Errno) {
            try ring.register(entry, session: device, mark: 0)
            try ring.submit()
        } catch {}
    }

    // MARK: Ending

    /// Ends the threads.
    /// - Returns: whether they have ended: else what they use must stay.
    func end() -> Bool {
        let (work, workers, dispatchers) = state.withLock { ($0.work, $0.workers, $0.dispatchers) }
        guard let work else { return true }
        return work.end {
            workers?.end()
            for dispatcher in dispatchers { dispatcher.wake() }
        }
    }
}
