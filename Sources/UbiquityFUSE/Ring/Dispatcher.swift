internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquitySystem

/// The thread that takes a core's requests while all its direct servers are busy, for example with many requests that
/// wait for the network. It has an entry for each such request. It serves quick requests itself and passes the others
/// to threads that may block, because its entries receive requests only while it does not block.
final class Dispatcher: RingServer, @unchecked Sendable {
    /// Number of entries at the beginning, and of each extension.
    private static let step = 8
    /// Largest number of entries: requests of one core that wait at one time. Further requests wait for these.
    static let maximumEntries = 4096
    /// With fewer free entries than this, more are added.
    private static let reserve = 4
    private static let wakeMark = UInt64.max

    private let queue: UInt16
    private let work: RingWork
    private let workers: RequestWorkers
    private let answered = Lock([RingEntry]())
    private let isAsleep = Atomic(false)
    private let alarm: FileDescriptor
    private let alarms: UnsafeMutablePointer<UInt64>

    // Used by its own thread only.
    private var entries: [RingEntry] = []
    /// Entries whose request is not answered yet, or that are lost.
    private var taken = 0
    private var lost = 0
    /// New entries for which queued requests may exist that the kernel does not place by itself.
    private var unasked = 0

    init(queue: UInt16, work: RingWork, workers: RequestWorkers) throws(Errno) {
        let alarm = CUbiquity_eventDescriptor()
        guard alarm >= 0 else { throw Errno(rawValue: errno) }
        self.alarm = FileDescriptor(owning: alarm)
        self.queue = queue
        self.work = work
        self.workers = workers
        alarms = .allocate(capacity: 1)
        alarms.initialize(to: 0)
    }

    deinit { alarms.deallocate() }

    func answered(_ entry: RingEntry) {
        answered.withLock { $0.append(entry) }
        wake()
    }

    /// Wakes the thread to send answers and to check whether the mount ends.
    func wake() {
        guard isAsleep.exchange(false, ordering: .sequentiallyConsistent) else { return }
        var one: UInt64 = 1
        _ = write(alarm.rawValue, &one, 8)
    }

    /// Serves until the connection ends.
    /// - Parameter hasBegun: called when the first entries are registered.
    func run(_ hasBegun: () -> Void) throws(Errno) {
        var ring = try KernelRing(submissions: 64, completions: Self.maximumEntries * 2)
        try grow(&ring)
        try ring.submit()
        // A registration that fails does so at once.
        while let completion = ring.take() { try take(completion, &ring) }
        hasBegun()
        try ring.read(alarm, into: alarms, mark: Self.wakeMark)
        while !work.isEnding {
            try sendAnswers(&ring)
            if unasked > 0, taken > lost { try nudge(&ring) }
            isAsleep.store(true, ordering: .sequentiallyConsistent)
            // Answers given before that woke no thread.
            if work.isEnding || answered.withLock({ !$0.isEmpty }) {
                isAsleep.store(false, ordering: .sequentiallyConsistent)
                continue
            }
            do throws(Errno) { try ring.submitAndWait() } catch .EINTR {}
            isAsleep.store(false, ordering: .sequentiallyConsistent)
            while let completion = ring.take() { try take(completion, &ring) }
        }
    }

    private func sendAnswers(_ ring: inout KernelRing) throws(Errno) {
        let ready = answered.withLock { answered in
            defer { answered.removeAll(keepingCapacity: true) }
            return answered
        }
        for entry in ready {
            try ring.answer(entry, session: work.session, mark: UInt64(entry.number))
            entry.isTaken = false
            taken -= 1
        }
        guard !ready.isEmpty else { return }
        try ring.submit()
        guard !ring.hasCompletions else { return }
        // A queued request would have been placed with the answer.
        unasked = 0
        // After many requests at one time, most entries are unused.
        for entry in ready where entry.number >= Self.step { entry.giveBack() }
    }

    private func take(_ completion: KernelRing.Completion, _ ring: inout KernelRing) throws(Errno) {
        if completion.mark == Self.wakeMark { return try ring.read(alarm, into: alarms, mark: Self.wakeMark) }
        guard let entry = entries[safe: Int(completion.mark)] else { return }
        if completion.result != 0 { return try giveUp(entry, Errno(rawValue: -completion.result), &ring) }
        entry.isTaken = true
        taken += 1
        if QueueNudge.isOne(entry) {
            work.serve(entry, for: self)
            return try sendAnswers(&ring)
        }
        if entries.count - taken < Self.reserve { try grow(&ring) }
        guard OpcodeSet.quick.contains(entry.opcode) else { return workers.serve(entry, for: self) }
        let isTurn = work.turn.begin()
        defer { if isTurn { work.turn.end() } }
        work.serve(entry, for: self)
        // Its program waits for it, and there may be more to serve.
        try sendAnswers(&ring)
    }

    /// The kernel refused an entry, or takes none any more.
    private func giveUp(_ entry: RingEntry, _ error: Errno, _ ring: inout KernelRing) throws(Errno) {
        if error == .EINTR || error == .EAGAIN {
            unasked += 1
            return try ring.register(entry, session: work.session, mark: UInt64(entry.number))
        }
        // Without memory for one more entry, the others still work; all fail at the end of the connection.
        lost += 1
        taken += 1
        if lost == entries.count { throw error }
    }

    private func grow(_ ring: inout KernelRing) throws(Errno) {
        for _ in 0..<min(Self.step, Self.maximumEntries - entries.count) {
            guard let entry = RingEntry(queue: queue, number: entries.count) else { return }
            entries.append(entry)
            unasked += 1
            try ring.register(entry, session: work.session, mark: UInt64(entry.number))
        }
    }

    // MARK: Queued requests

    /// Makes the kernel place requests it may have queued before entries were added. If no unanswered request concerns
    /// a file, it is tried again when there is one.
    private func nudge(_ ring: inout KernelRing) throws(Errno) {
        try ring.submit()
        var tried: Set<UInt64> = []
        for entry in entries where entry.isTaken && tried.insert(entry.node).inserted {
            unasked -= QueueNudge.send(unasked, node: entry.node, session: work.session)
            if unasked == 0 || tried.count == Self.maximumFiles { return }
        }
    }

    private static let maximumFiles = 256
}

extension Array {
    fileprivate subscript(safe index: Int) -> Element? { indices.contains(index) ? self[index] : nil }
}
