internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquitySystem

/// A thread with one entry: it serves a request from its arrival to its answer, on the core of the program that waits.
///
/// The kernel gives an entry that is free the next request of its core, and has it put there by the thread that
/// registered it. With one entry a thread has none that is free while it is in the disk, or waits for an answer that
/// another thread gives: then the next request goes to another thread's. The entry that was used last is taken first,
/// so one thread serves a program that makes one call after the other, and its caches stay warm.
final class DirectServer: RingServer, @unchecked Sendable {
    private let entry: RingEntry
    private let work: RingWork
    // Posted once for each answer.
    private let answer: UnsafeMutablePointer<sem_t>
    /// Whether it has one that is not answered. Of its thread alone.
    private(set) var hasRequest = false
    private let threadNumber = Atomic<Int32>(0)
    private let count = Atomic<UInt64>(0)
    /// It had waited for its core, and got the usual priority till it serves.
    let isPreferred = Atomic(false)

    /// Its number, as in /proc/self/task; 0 while it does not run.
    var thread: Int32 { threadNumber.load(ordering: .relaxed) }
    /// How many requests it was given.
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
        // Without it the disk serves it as its policy says.
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
        // It may have waited before this, or in the midst of it.
        noteTurn(of: opcode)
        defer { noteTurn(of: opcode) }
        let isQuick = OpcodeSet.quick.contains(opcode) && work.turn.begin()
        work.serve(entry, for: self)
        let isAnswered = sem_trywait(answer) == 0
        if isAnswered, OpcodeSet.openings.contains(opcode) {
            if isQuick { work.turn.end() }
            // It goes with the wait for the next one: a system call less.
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

    /// False if the mount has ended meanwhile.
    private func waitForAnswer() -> Bool {
        while sem_wait(answer) == -1 {
            if work.isEnding { return false }
        }
        return true
    }
}
