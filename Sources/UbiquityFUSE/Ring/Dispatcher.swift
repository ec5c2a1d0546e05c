internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquitySystem

/// The thread that takes the requests of a core while all its direct servers are at work: many that wait for the
/// network, for instance. It has as many entries as there are such requests, serves the quick ones itself, and has
/// the others served by threads that may block, for its entries get requests only while it does not.
final class Dispatcher: RingServer, @unchecked Sendable {
    /// Entries at the beginning, and by how many they grow.
    private static let step = 8
    /// Entries at most: requests of one core that wait at one time. Programs whose requests are more wait for these.
    static let maximumEntries = 4096
    /// When there are fewer free ones, there are to be more.
    private static let reserve = 4
    private static let wakeMark = UInt64.max

    private let queue: UInt16
    private let work: RingWork
    private let workers: RequestWorkers
    private let answered = Lock([RingEntry]())
    private let isAsleep = Atomic(false)
    private let alarm: FileDescriptor
    private let alarms: UnsafeMutablePointer<UInt64>

    // Of its thread alone.
    private var entries: [RingEntry] = []
    /// Entries whose request is not answered yet, or that are lost.
    private var taken = 0
    private var lost = 0
    /// New ones beside which requests may be queued that nothing hands out.
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

    /// Has the thread look at what is answered and whether the mount is to end.
    func wake() {
        guard isAsleep.exchange(false, ordering: .sequentiallyConsistent) else { return }
        var one: UInt64 = 1
        _ = write(alarm.rawValue, &one, 8)
    }

    /// Serves until the connection ends.
    /// - Parameter hasBegun: called when the first entries are the kernel's.
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
            // What was answered before that woke nobody.
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
        // Had there been one that is queued, it would have come with the answer.
        unasked = 0
        // Of many that waited at one time most lie idle afterwards.
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

    /// The kernel did not take an entry, or takes none any more.
    private func giveUp(_ entry: RingEntry, _ error: Errno, _ ring: inout KernelRing) throws(Errno) {
        if error == .EINTR || error == .EAGAIN {
            unasked += 1
            return try ring.register(entry, session: work.session, mark: UInt64(entry.number))
        }
        // Without memory for one more there are still the others; all go at the end of the connection.
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

    // MARK: What is queued

    /// Has the kernel hand out what it may have queued, now that there are more entries. Where no request that is not
    /// answered is about a file, it is tried again when there is one.
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
