internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquitySystem

/// Has requests served on the processor on which the program runs that makes them.
///
/// A program that makes one request after the other and the thread that answers take turns. On two processors each turn
/// wakes one that has gone to sleep, on one it is a change of threads: an open took 55 µs and 20 µs (measured with
/// libfuse's C example on two virtual processors). The scheduler does the opposite: it wakes a thread on an idle
/// processor. So while nearly all requests come from one thread, those that serve are confined to its processor; with
/// several callers, or none, they run anywhere.
///
/// It is watched by a thread of its own, which sleeps while there is little to do. A thread that is started by a
/// confined one inherits that; the watch gives it its freedom back.
final class CallerProcessor: Sendable {
    /// Requests of one caller in a row that begin a watch.
    private static let beginning = 64
    /// Between two looks: a program that the scheduler has moved costs that long the slower way.
    private static let interval: Duration = .milliseconds(4)
    /// Requests between two looks below which nobody is being served.
    private static let fewest = 4
    /// Looks without requests after which the watch ends.
    private static let patience = 8
    /// One caller is alone if it makes that many times as many requests as all others.
    private static let share = 8

    /// linux/fuse.h. These carry data: copying it on another processor than the program's is no loss.
    private static let readOpcode: UInt32 = 15
    private static let writeOpcode: UInt32 = 16
    private static let opcodeOffset = 4
    private static let callerOffset = 32
    private static let headerLength = 40

    private struct State {
        var isWatching = false
        var isClosed = false
        /// Threads that serve.
        var servers: Set<Int32> = []
        /// Where they are confined to; nil if nowhere.
        var place: ProcessorSet?
    }

    private let state = Monitor(State())
    /// What all threads may use; nil if that is one processor, and there is nothing to choose.
    private let all: ProcessorSet?
    private let key: pthread_key_t?
    private let caller = Atomic<UInt32>(0)
    /// Requests of `caller`, in a row.
    private let row = Atomic<Int>(0)
    private let own = Atomic<Int>(0)
    private let others = Atomic<Int>(0)
    private let isWatched = Atomic(false)

    /// - Parameter isWanted: false leaves everything to the scheduler.
    init(isWanted: Bool) {
        let processors = isWanted ? ProcessorSet.ofThisThread().flatMap { $0.count > 1 ? $0 : nil } : nil
        var key = pthread_key_t()
        let hasKey = processors != nil && pthread_key_create(&key, serverEnds) == 0
        self.key = hasKey ? key : nil
        all = hasKey ? processors : nil
    }

    deinit { if let key { pthread_key_delete(key) } }

    /// Starts to watch; to be called once.
    func start() {
        guard all != nil else { return }
        DedicatedThread.start(name: "near-callers") { [self] in run() }
    }

    func end() {
        state.withLock { $0.isClosed = true }
        state.broadcast()
    }

    // MARK: On the threads that serve

    /// The calling thread serves; to be called each time before it takes a request.
    @inline(__always)
    func takePart() {
        guard let key, pthread_getspecific(key) == nil else { return }
        enroll(key)
    }

    private func enroll(_ key: pthread_key_t) {
        let thread = CUbiquity_threadNumber()
        pthread_setspecific(key, Unmanaged.passRetained(Server(thread, self)).toOpaque())
        state.withLock { state in
            state.servers.insert(thread)
            (state.place ?? all)?.confine(thread: thread)
        }
    }

    fileprivate func leave(_ thread: Int32) { state.withLock { _ = $0.servers.remove(thread) } }

    /// A request has come.
    @inline(__always)
    func note(_ message: UnsafeRawPointer, length: Int) {
        guard all != nil, length >= Self.headerLength else { return }
        let opcode = message.loadUnaligned(fromByteOffset: Self.opcodeOffset, as: UInt32.self)
        let thread = message.loadUnaligned(fromByteOffset: Self.callerOffset, as: UInt32.self)
        guard opcode != Self.readOpcode, opcode != Self.writeOpcode else {
            return others.store(others.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
        }
        // The kernel's own: a release, what is forgotten.
        guard thread != 0 else { return }
        guard thread == caller.load(ordering: .relaxed) else {
            caller.store(thread, ordering: .relaxed)
            row.store(0, ordering: .relaxed)
            return others.store(others.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
        }
        // Counts that two threads raise at the same moment may lose one: they are estimates.
        own.store(own.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
        guard !isWatched.load(ordering: .relaxed) else { return }
        let inRow = row.load(ordering: .relaxed) &+ 1
        row.store(inRow, ordering: .relaxed)
        if inRow >= Self.beginning { beginWatch() }
    }

    private func beginWatch() {
        let isFirst = state.withLock { state in
            defer { state.isWatching = true }
            return !state.isWatching
        }
        isWatched.store(true, ordering: .relaxed)
        if isFirst { state.signal() }
    }

    // MARK: The watch

    private func run() {
        while state.wait(until: { $0.isClosed ? false : $0.isWatching ? true : nil }) {
            watch()
            row.store(0, ordering: .relaxed)
            state.withLock { $0.isWatching = false }
            isWatched.store(false, ordering: .relaxed)
        }
        move(to: nil)
    }

    private func watch() {
        var idleLooks = 0, threads = 0
        var before = (own: own.load(ordering: .relaxed), others: others.load(ordering: .relaxed))
        while idleLooks < Self.patience {
            if state.wait(atMost: Self.interval, until: { $0.isClosed ? true : nil }) != nil { break }
            let now = (own: own.load(ordering: .relaxed), others: others.load(ordering: .relaxed))
            let mine = now.own &- before.own, theirs = now.others &- before.others
            before = now
            guard mine + theirs >= Self.fewest else {
                idleLooks += 1
                continue
            }
            idleLooks = 0
            move(to: mine >= theirs * Self.share ? place(of: caller.load(ordering: .relaxed)) : nil)
            threads = freeOthers(known: threads)
        }
        move(to: nil)
        _ = freeOthers(known: 0)
    }

    private func place(of thread: UInt32) -> ProcessorSet? {
        guard let set = ProcessorSet.processor(ofThread: thread).flatMap(ProcessorSet.init(only:)),
            all?.contains(set) ?? false
        else { return nil }
        return set
    }

    private func move(to place: ProcessorSet?) {
        state.withLock { state in
            guard state.place != place else { return }
            state.place = place
            for thread in state.servers { (place ?? all)?.confine(thread: thread) }
        }
    }

    /// Threads that were started since may have inherited what does not concern them.
    /// - Parameter known: how many there were at the last look.
    private func freeOthers(known: Int) -> Int {
        let count = ProcessorSet.threadCount()
        guard count != known else { return known }
        let servers = state.withLock { $0.servers }
        for thread in ProcessorSet.threads() where !servers.contains(thread) { all?.confine(thread: thread) }
        return count
    }
}

/// What a thread that serves leaves behind when it ends.
private final class Server: Sendable {
    let thread: Int32
    let owner: CallerProcessor
    init(_ thread: Int32, _ owner: CallerProcessor) {
        self.thread = thread
        self.owner = owner
    }
}

private func serverEnds(_ pointer: UnsafeMutableRawPointer?) {
    guard let pointer else { return }
    let server = Unmanaged<Server>.fromOpaque(pointer).takeRetainedValue()
    server.owner.leave(server.thread)
}
