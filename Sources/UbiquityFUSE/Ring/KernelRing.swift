internal import CUbiquityShims
internal import Glibc
internal import UbiquitySystem

/// An io_uring through which one thread receives the kernel's requests and sends the answers. For that thread only.
struct KernelRing: ~Copyable {
    struct Completion {
        var mark: UInt64
        /// 0, or a negative errno.
        var result: Int32
    }

    private var ring = CUbiquity_Ring()

    /// - Parameter completions: at least the number of commands that may be in progress at one time.
    init(submissions: Int, completions: Int) throws(Errno) {
        try Self.check(CUbiquity_ringOpen(&ring, UInt32(submissions), UInt32(completions)))
        CUbiquity_ringRemember(&ring)
    }

    deinit {
        var ring = ring
        CUbiquity_ringClose(&ring)
    }

    /// Registers an entry with the kernel, which places a request in it.
    mutating func register(_ entry: RingEntry, session: Int32, mark: UInt64) throws(Errno) {
        try prepare { ring in
            CUbiquity_ringPrepareCommand(
                ring, session, CUbiquity_FUSE_RING_REGISTER, entry.queue, 0, entry.vector, mark)
        }
    }

    /// Sends the answer in an entry, and lets the kernel place the next request there.
    mutating func answer(_ entry: RingEntry, session: Int32, mark: UInt64) throws(Errno) {
        let request = entry.commitID
        try prepare { ring in
            CUbiquity_ringPrepareCommand(
                ring, session, CUbiquity_FUSE_RING_COMMIT_AND_FETCH, entry.queue, request, nil, mark)
        }
    }

    mutating func read(_ descriptor: FileDescriptor, into number: UnsafeMutablePointer<UInt64>, mark: UInt64)
        throws(Errno)
    {
        try prepare { ring in CUbiquity_ringPrepareRead(ring, descriptor.rawValue, number, 8, mark) }
    }

    private mutating func prepare(_ body: (UnsafeMutablePointer<CUbiquity_Ring>) -> Int32) throws(Errno) {
        do throws(Errno) { try Self.check(body(&ring)) } catch .EBUSY {
            try submit()
            try Self.check(body(&ring))
        }
    }

    /// Submits the prepared commands.
    mutating func submit() throws(Errno) { try submit(waitingFor: 0) }

    /// Submits, and waits for a completion.
    /// - Throws: EINTR after a signal.
    mutating func submitAndWait() throws(Errno) { try submit(waitingFor: 1) }

    /// Submits; tries again while memory is short, because a program hangs if its answer is not sent. Prepared commands
    /// stay until the kernel has taken them.
    private mutating func submit(waitingFor count: UInt32) throws(Errno) {
        for _ in 0..<Self.attempts {
            do throws(Errno) {
                try Self.check(CUbiquity_ringSubmit(&ring, count))
                // The kernel may have had memory for some of them only.
                if count > 0 || ring.prepared == 0 { return }
            } catch {
                switch error {
                case .EAGAIN, .EBUSY, .ENOMEM: usleep(Self.pause)
                case .EINTR where count == 0: continue
                default: throw error
                }
            }
        }
        throw .ENOMEM
    }

    private static let attempts = 10_000
    /// In microseconds.
    private static let pause: UInt32 = 1000

    mutating func take() -> Completion? {
        var completion = Completion(mark: 0, result: 0)
        return CUbiquity_ringTake(&ring, &completion.mark, &completion.result) == 1 ? completion : nil
    }

    /// Whether completions are waiting. Completions arrive, and entries are filled, only during a submission.
    var hasCompletions: Bool {
        withUnsafePointer(to: ring) { CUbiquity_ringHasCompletions($0) != 0 }
    }

    private static func check(_ result: Int32) throws(Errno) {
        if result == -1 { throw Errno(rawValue: errno) }
    }
}
