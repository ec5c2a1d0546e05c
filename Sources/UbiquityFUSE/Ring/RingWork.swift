internal import CFUSE
internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquitySystem

/// State that the threads of a session's rings share.
final class RingWork: Sendable {
    private struct Threads {
        /// Threads that were started and have not ended.
        var count = 0
        /// Those of them that already run, and their numbers.
        var running: [UInt: Int32] = [:]
    }

    /// The session's device.
    let session: Int32
    /// Held by the server of a quick request until the answer is sent.
    let turn = QuickTurn()
    let watch: ServerWatch
    private let bindsToCores: Bool
    private let underWay: RequestsUnderWay
    private let hasToEnd = Atomic(false)
    private let threads = Monitor(Threads())
    // libfuse guards the session itself; both outlive the threads.
    private nonisolated(unsafe) let libfuse: OpaquePointer
    private let context: Unmanaged<SessionContext>

    init(
        device: Int32, libfuse: OpaquePointer, context: Unmanaged<SessionContext>, underWay: RequestsUnderWay,
        policy: ServingPolicy
    ) {
        watch = ServerWatch(policy: policy)
        bindsToCores = policy.uses(.bind)
        session = device
        self.libfuse = libfuse
        self.context = context
        self.underWay = underWay
    }

    /// Lets libfuse serve the request in an entry. The answer comes during the call or later.
    func serve(_ entry: RingEntry, for server: any RingServer) {
        if QueueNudge.isOne(entry) {
            entry.put(error: 0)
            return server.answered(entry)
        }
        guard let message = entry.message(), let start = message.baseAddress else {
            entry.put(error: EIO)
            return server.answered(entry)
        }
        // The kernel sends forgets through the device, with one exception that it waits for. It concerns a folder in a
        // listing that the kernel has at another place and cannot move just then (`fuse_force_forget`). Through the
        // device that forget ends when it is read, from an entry with its answer. Without one the listing program would
        // wait forever, with the folder locked.
        if OpcodeSet.answerless.contains(entry.opcode) {
            process(start, message.count)
            entry.put(error: 0)
            return server.answered(entry)
        }
        if underWay.begin(entry.request, RequestsUnderWay.Place(entry: entry, server: server)) {
            interrupt(entry.request)
        }
        UnnamedFiles.translate(start)
        let context = context.takeUnretainedValue()
        if BirthTime.answer(UnsafeRawBufferPointer(message), context, session) { return }
        process(start, message.count)
    }

    /// Tells libfuse that a request is interrupted, as the kernel would.
    func interrupt(_ request: UInt64) {
        var message = Interrupt(number: request | RequestsUnderWay.interruptBit, request: request)
        process(&message, MemoryLayout<Interrupt>.size)
    }

    /// Struct fuse_in_header and fuse_interrupt_in.
    private struct Interrupt {
        var length = UInt32(MemoryLayout<Interrupt>.size)
        var opcode = RingWork.interruptOpcode
        var number: UInt64
        var node: UInt64 = 0
        /// User, group, process, and the length of extensions (none).
        var caller: (UInt32, UInt32, UInt32, UInt32) = (0, 0, 0, 0)
        var request: UInt64
    }
    /// FUSE_INTERRUPT
    private static let interruptOpcode: UInt32 = 36

    private func process(_ message: UnsafeMutableRawPointer, _ count: Int) {
        var buffer = fuse_buf()
        buffer.mem = message
        buffer.size = count
        fuse_session_process_buf(libfuse, &buffer)
    }

    // MARK: Threads

    var isEnding: Bool { hasToEnd.load(ordering: .sequentiallyConsistent) }

    /// - Parameter core: the only core on which the thread runs, if the policy binds threads; nil for any that the
    ///   process may use.
    /// - Returns: false if no thread can be created.
    func start(_ name: String, core: UInt16? = nil, _ body: @escaping @Sendable () -> Void) -> Bool {
        threads.withLock { $0.count += 1 }
        let isStarted = DedicatedThread.startIfPossible(name: name) { [self] in
            let thread = UInt(pthread_self())
            threads.withLock { $0.running[thread] = CUbiquity_threadNumber() }
            if let core, bindsToCores { CoreBinding.bind(to: core) } else { CoreBinding.release() }
            body()
            threads.withLock { threads in
                threads.running[thread] = nil
                threads.count -= 1
            }
            threads.broadcast()
        }
        if !isStarted { threads.withLock { $0.count -= 1 } }
        return isStarted
    }

    /// Runs the watch until the end.
    func watchServers() {
        watch.run(isEnding: { isEnding }, own: { threads.withLock { Set($0.running.values) } })
    }

    /// Ends the threads, also those that wait in the kernel.
    /// - Returns: whether they have ended.
    func end(_ wake: () -> Void) -> Bool {
        hasToEnd.store(true, ordering: .sequentiallyConsistent)
        for _ in 0..<Self.attempts {
            wake()
            watch.wake()
            // Under the lock, so that none of them ends meanwhile.
            threads.withLock { for thread in $0.running.keys { pthread_kill(pthread_t(thread), SIGURG) } }
            if threads.wait(atMost: Self.interval, until: { $0.count == 0 ? true : nil }) != nil { return true }
        }
        return false
    }

    /// A signal just before a thread begins to wait is lost, so several are sent.
    private static let attempts = 100
    private static let interval: Duration = .milliseconds(100)
}
