internal import CFUSE
internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquityCore
package import UbiquitySystem

/// Receives the kernel's requests by io_uring (Linux 6.14 and later): each core has a queue, served by threads on that
/// core.
///
/// Through the FUSE device any thread takes a request, mostly on another core. That core must be woken, and then it
/// must wake the program's core: a third to a half of the time of a small request (measured: 26 and 14 µs for a lookup,
/// 57 and 28 for a rename through libfuse's example). Messages that no program waits for still come through the device:
/// forgets (but see `RingWork`) and interrupts.
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

    /// How the session's threads are scheduled.
    let policy: ServingPolicy

    /// - Parameter refusal: why rings are not wanted; nil if they are.
    package init(refusal: String?, policy: ServingPolicy = .tuned) {
        state = Lock(State(refusal: refusal))
        self.policy = policy
    }

    /// Why requests come through the device instead; nil if they come by rings.
    package var refusal: String? {
        state.withLock { $0.refusal } ?? (areActive ? nil : "the mount is still starting")
    }

    var isWanted: Bool { state.withLock { $0.refusal == nil } }
    var areActive: Bool { active.load(ordering: .relaxed) }

    /// Call before the session begins.
    /// - Parameter failure: called when requests of a core cannot be answered any more: the connection must end.
    func attach(
        _ session: OpaquePointer, _ context: Unmanaged<SessionContext>, failure: @escaping @Sendable (Errno) -> Void
    ) {
        self.failure.withLock { $0 = failure }
        state.withLock { $0.libfuse = Pointer(session: session, context: context) }
    }

    func answer(_ vector: UnsafePointer<iovec>, count: Int) -> Int? {
        // Also after a refusal: a slow queue may have come into use nevertheless.
        if areActive, let request = underWay.giveBack(vector, count: count) {
            state.withLock { $0.work }?.interrupt(request)
        }
        return underWay.answer(vector, count: count)
    }

    // MARK: Beginning

    func areMissing() { refuse("the kernel does not offer it (it came with Linux 6.14)") }

    private func refuse(_ reason: String) { state.withLock { $0.refusal = $0.refusal ?? reason } }

    /// Starts the threads once the kernel has accepted the session's answer. The kernel holds all requests until each
    /// core's queue has an entry.
    func begin(device: Int32) {
        guard let pointer = state.withLock({ $0.refusal == nil ? $0.libfuse : nil }) else { return }
        let work = RingWork(
            device: device, libfuse: pointer.session, context: pointer.context, underWay: underWay, policy: policy)
        let workers = RequestWorkers(work)
        active.store(true, ordering: .sequentiallyConsistent)
        state.withLock {
            $0.work = work
            $0.workers = workers
        }
        do throws(UbiquityError) {
            let cores = try RingSupport.cores()
            if work.watch.isNeeded {
                guard work.start("fuse-watch", { work.watchServers() }) else { throw Self.noThread }
            }
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
                throw UbiquityError(error, doing: "create a queue for requests")
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
    private static let noThread = UbiquityError(.noSpace, "cannot create a thread")

    private func report(_ core: UInt16, _ isRunning: Bool) {
        start.withLock { $0[core] = isRunning }
        start.broadcast()
    }

    private func startDirectServers(_ cores: UInt16, _ work: RingWork) {
        for _ in 0..<RingSupport.directServers(cores: cores) {
            for core in 0..<cores {
                // With fewer direct servers, the dispatcher has more to do.
                guard let server = DirectServer(queue: core, work: work) else { return }
                work.watch.add(server)
                _ = work.start("fuse-core-\(core)", core: core) { [self] in
                    do throws(Errno) { try server.run() } catch { if server.hasRequest { fail(error, work) } }
                }
            }
        }
    }

    /// Reports that a thread with requests could not continue.
    private func fail(_ error: Errno, _ work: RingWork) {
        // These errors mean the end of the connection. A ring that does not start is handled by the refusal.
        let ends: [Errno] = [.ENOTCONN, .ENODEV, .ECANCELED, Errno(rawValue: ECONNABORTED)]
        guard !work.isEnding, isWanted, !ends.contains(error) else { return }
        failure.withLock { $0 }?(error)
    }

    /// Makes the kernel use the device after all, by a registration that fails.
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
    /// - Returns: whether they have ended; if not, the objects they use must stay alive.
    func end() -> Bool {
        let (work, workers, dispatchers) = state.withLock { ($0.work, $0.workers, $0.dispatchers) }
        guard let work else { return true }
        return work.end {
            workers?.end()
            for dispatcher in dispatchers { dispatcher.wake() }
        }
    }
}
