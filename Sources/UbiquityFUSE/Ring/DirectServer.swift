internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquitySystem

/// A thread with one ring entry. It serves a request from arrival to answer, on the core of the waiting program.
///
/// The kernel places a core's next request in a free entry of that core, in the context of the thread that registered
/// the entry. With one entry, a thread has no free entry while it is in the disk or waits for another thread's answer.
/// So the next request is placed with another thread. The kernel takes the most recently used entry first. So one
/// thread serves a program that makes one call after the other, and its caches stay warm.
final class DirectServer: RingServer, @unchecked Sendable {
    private let entry: RingEntry
    private let work: RingWork
    // Posted once for each answer.
    private let answer: UnsafeMutablePointer<sem_t>
    /// Whether its request is not answered yet. Used by its own thread only.
    private(set) var hasRequest = false
    private let threadNumber = Atomic<Int32>(0)
    private let count = Atomic<UInt64>(0)
    /// It waited for its core, and got the usual priority until it serves.
    let isPreferred = Atomic(false)

    /// Its thread number, as in /proc/self/task; 0 while it does not run.
    var thread: Int32 { threadNumber.load(ordering: .relaxed) }
    /// Number of requests it received.
    var served: UInt64 { count.load(ordering: .sequentiallyConsistent) }

    init?(queue: UInt16, work: RingWork) {
        guard let entry = RingEntry(queue: queue, number: 0) else { return nil }
        self.entry = entry
        self.work = work
        answer = .allocate(capacity: 1)
        sem_init(answer, 0, 0)
    }

    deinit {
        sem_destroy(answer)
        answer.deallocate()
    }

    func answered(_ entry: RingEntry) { sem_post(answer) }

    /// Serves until the connection ends.
    func run() throws(Errno) {
        threadNumber.store(CUbiquity_threadNumber(), ordering: .relaxed)
        defer { threadNumber.store(0, ordering: .relaxed) }
        // Otherwise the disk scheduler would follow the thread's idle policy.
        _ = CUbiquity_keepDiskPriority()
        work.watch.begin()
        var ring = try KernelRing(submissions: 4, completions: 8)
        try ring.register(entry, session: work.session, mark: 0)
        while true {
            do throws(Errno) {
                try ring.submitAndWait()
                hasRequest = false
            } catch .EINTR {}
            if work.isEnding { return }
            while let completion = ring.take() {
                if completion.result == 0 {
                    guard try serve(&ring) else { return }
                    continue
                }
                let error = Errno(rawValue: -completion.result)
                guard error == .EINTR || error == .EAGAIN else { throw error }
                try ring.register(entry, session: work.session, mark: 0)
            }
        }
    }

    /// - Returns: false if the mount has ended meanwhile.
    private func serve(_ ring: inout KernelRing) throws(Errno) -> Bool {
        count.add(1, ordering: .sequentiallyConsistent)
        hasRequest = true
        work.watch.noteRequest()
        let opcode = entry.opcode
        // The thread may have waited for its core before this or during it.
        noteTurn(of: opcode)
        defer { noteTurn(of: opcode) }
        let isQuick = OpcodeSet.quick.contains(opcode) && work.turn.begin()
        work.serve(entry, for: self)
        let isAnswered = sem_trywait(answer) == 0
        if isAnswered, OpcodeSet.openings.contains(opcode) {
            if isQuick { work.turn.end() }
            // Send it with the wait for the next request, which saves a system call.
            try ring.answer(entry, session: work.session, mark: 0)
            return true
        }
        do throws(Errno) {
            if isAnswered { try sendAnswer(&ring) }
        } catch {
            if isQuick { work.turn.end() }
            throw error
        }
        if isQuick { work.turn.end() }
        if isAnswered { return true }
        guard waitForAnswer() else { return false }
        try sendAnswer(&ring)
        return true
    }

    private func noteTurn(of opcode: UInt32) {
        guard isPreferred.load(ordering: .relaxed), isPreferred.exchange(false, ordering: .relaxed) else { return }
        work.watch.noteTurn(of: opcode)
    }

    private func sendAnswer(_ ring: inout KernelRing) throws(Errno) {
        try ring.answer(entry, session: work.session, mark: 0)
        try ring.submit()
        hasRequest = false
    }

    /// Waits for the answer; false if the mount has ended meanwhile.
    private func waitForAnswer() -> Bool {
        while sem_wait(answer) == -1 {
            if work.isEnding { return false }
        }
        return true
    }
}
