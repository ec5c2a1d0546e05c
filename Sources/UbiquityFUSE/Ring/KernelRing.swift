internal import CUbiquityShims
internal import Glibc
internal import UbiquitySystem

/// An io_uring through which one thread gets requests of the kernel and sends the answers. For that thread alone.
struct KernelRing: ~Copyable {
    struct Completion {
        var mark: UInt64
        /// 0, or a negative errno.
        var result: Int32
    }

    private var ring = CUbiquity_Ring()

    /// - Parameter completions: at least as many as commands that may be under way at one time.
    init(submissions: Int, completions: Int) throws(Errno) {
        try Self.check(CUbiquity_ringOpen(&ring, UInt32(submissions), UInt32(completions)))
        CUbiquity_ringRemember(&ring)
    }

    deinit {
        var ring = ring
        CUbiquity_ringClose(&ring)
    }

    /// Gives an entry to the kernel, which puts a request into it.
    mutating func register(_ entry: RingEntry, session: Int32, mark: UInt64) throws(Errno) {
        try prepare { ring in
            CUbiquity_ringPrepareCommand(
                ring, session, CUbiquity_FUSE_RING_REGISTER, entry.queue, 0, entry.vector, mark)
        }
    }

    /// Sends the answer that stands in an entry, and has the next request put there.
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

    /// Tells the kernel what is prepared.
    mutating func submit() throws(Errno) { try submit(waitingFor: 0) }

    /// The same, and waits for a completion.
    /// - Throws: EINTR after a signal.
    mutating func submitAndWait() throws(Errno) { try submit(waitingFor: 1) }

    /// Without memory for the moment it is tried again: an answer that is not sent is a program that hangs. What is
    /// prepared stays so until the kernel has taken it.
    private mutating func submit(waitingFor count: UInt32) throws(Errno) {
        for _ in 0..<Self.attempts {
            do throws(Errno) {
                try Self.check(CUbiquity_ringSubmit(&ring, count))
                // It may have had memory for some of it only.
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
    /// Microseconds.
    private static let pause: UInt32 = 1000

    mutating func take() -> Completion? {
        var completion = Completion(mark: 0, result: 0)
        return CUbiquity_ringTake(&ring, &completion.mark, &completion.result) == 1 ? completion : nil
    }

    /// Whether there is something to take. Nothing more comes, and nothing is put into an entry, but during a
    /// submission.
    var hasCompletions: Bool {
        withUnsafePointer(to: ring) { CUbiquity_ringHasCompletions($0) != 0 }
    }

    private static func check(_ result: Int32) throws(Errno) {
        if result == -1 { throw Errno(rawValue: errno) }
    }
}
