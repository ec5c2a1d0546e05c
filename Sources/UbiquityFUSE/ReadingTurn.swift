internal import CFUSE
internal import CUbiquityShims
internal import Glibc
internal import Synchronization
internal import UbiquitySystem

/// Decides which thread reads the kernel's requests.
///
/// One thread of libfuse's loop, the reader, takes request after request. It answers quick ones itself and then polls
/// for the next one for a moment before it sleeps. So a program that makes one call after the other does not wait each
/// time until a sleeping thread wakes on another core (measured on two cores: a file is created in 0.20 ms instead of
/// 0.29). Before a request that may take long, the reader passes the turn on.
///
/// The other threads wait. One of them, the deputy, checks every millisecond, while requests arrive, whether the reader
/// is stuck in a request that should have been quick. If so, it takes the turn. Two threads may read for a moment; that
/// is harmless, because the kernel gives each request to one.
///
/// libfuse ends its threads by cancelling them while they read. `sem_wait` and `poll` can be cancelled, and the threads
/// hold no lock there.
final class ReadingTurn: Sendable {
    /// Loop threads that take turns; further threads just read.
    static let maximumSeats = 64
    /// In nanoseconds: the usual time between two calls of a program that does little else.
    private static let lookout: UInt64 = 50_000
    private static let deputysPause: Int64 = 1_000_000
    /// Looks without a request before the deputy sleeps until it is woken.
    private static let idleLooks = 8
    private static let maximumHope = 16
    /// How long forgets gather, in nanoseconds. An interrupt waits at most as long.
    private static let gathering: Int64 = 2_000_000

    private struct Waiting {
        /// Waiting seats, the most recent at the end: its thread's caches are the warmest.
        var parked: [Int] = []
        /// Number of seats ever taken; they are numbered from 1.
        var taken = 0
    }

    private let waiting = Lock(Waiting())
    /// The reader's seat, or 0: then the next thread becomes the reader. Reader and deputy change under the lock of
    /// `waiting`.
    private let reader = Atomic<Int>(0)
    private let deputy = Atomic<Int>(0)
    /// When the reader began to serve a request itself, in nanoseconds; 0 while it reads.
    private let busySince = Atomic<UInt64>(0)
    private let served = Atomic<UInt64>(0)
    /// Whether the deputy checks periodically, or sleeps.
    private let isWatched = Atomic<Bool>(false)
    /// Above 0, the reader polls for the next request. Each request that comes soon raises it, each that does not
    /// lowers it.
    private let hope = Atomic<Int>(maximumHope)
    private let takesTurns: Bool
    private let looksOut: Bool
    private let gathersForgets: Bool
    private let isAtEase = Atomic(false)
    /// The last requests were forgets, and no program waits for the next one.
    private let gathers = Atomic(false)
    /// Key of the thread's seat.
    private let key: pthread_key_t?
    // Any thread may use a semaphore; only the thread of its seat uses a number.
    private nonisolated(unsafe) let semaphores: UnsafeMutablePointer<sem_t>
    private nonisolated(unsafe) let begun: UnsafeMutablePointer<UInt64>

    /// - Parameter cores: of the machine. With one core, polling would keep the awaited program from running.
    init(policy: ServingPolicy = .tuned, cores: Int = sysconf(Int32(_SC_NPROCESSORS_ONLN))) {
        takesTurns = policy.uses(.turns)
        looksOut = cores > 1 && policy.uses(.poll)
        gathersForgets = policy.uses(.gather)
        var key = pthread_key_t()
        self.key = pthread_key_create(&key, nil) == 0 ? key : nil
        semaphores = .allocate(capacity: Self.maximumSeats + 1)
        for seat in 0...Self.maximumSeats { sem_init(semaphores + seat, 0, 0) }
        begun = .allocate(capacity: Self.maximumSeats + 1)
        begun.initialize(repeating: 0, count: Self.maximumSeats + 1)
    }

    deinit {
        for seat in 0...Self.maximumSeats { sem_destroy(semaphores + seat) }
        semaphores.deallocate()
        begun.deallocate()
        if let key { pthread_key_delete(key) }
    }

    /// For tests: whether the deputy sleeps, as all others do, until a request arrives.
    var isAtRest: Bool { deputy.load(ordering: .acquiring) != 0 && !isWatched.load(ordering: .acquiring) }

    /// Call once the rings serve requests. From then on only forgets and interrupts come through the device. The reader
    /// does not poll for them, and lets forgets gather. Waking for each one takes the core from the program that
    /// removes files, or makes the kernel drop them (measured: removing 5,000 files takes 52 to 57 µs each instead of
    /// 59 to 75).
    func beAtEase() { isAtEase.store(true, ordering: .relaxed) }

    /// As read(2), for the FUSE device. Waits for the turn first.
    func read(_ descriptor: Int32, _ buffer: UnsafeMutableRawPointer?, _ length: Int) -> Int {
        guard takesTurns, let seat = seat() else {
            let count = Glibc.read(descriptor, buffer, length)
            if count >= 8, let buffer { UnnamedFiles.translate(buffer) }
            return count
        }
        take(seat)
        let count = lookOutAndRead(seat, descriptor, buffer, length)
        guard count >= 8, let buffer else { return count }
        UnnamedFiles.translate(buffer)
        begin(buffer.loadUnaligned(fromByteOffset: 4, as: UInt32.self), seat)
        return count
    }

    private func seat() -> Int? {
        guard let key else { return nil }
        if let known = pthread_getspecific(key) { return Int(bitPattern: known) }
        let seat = waiting.withLock { waiting in
            waiting.taken = min(waiting.taken + 1, Self.maximumSeats + 1)
            return waiting.taken
        }
        guard seat <= Self.maximumSeats else { return nil }
        pthread_setspecific(key, UnsafeRawPointer(bitPattern: seat))
        return seat
    }

    // MARK: Waiting

    private func take(_ seat: Int) {
        // Not if the deputy took the turn meanwhile: then the number belongs to another request.
        _ = busySince.compareExchange(expected: begun[seat], desired: 0, ordering: .sequentiallyConsistent)
        if reader.load(ordering: .acquiring) == seat { return }
        waiting.withLock { waiting in
            if reader.load(ordering: .relaxed) == 0 {
                reader.store(seat, ordering: .releasing)
            } else if deputy.load(ordering: .relaxed) == 0 {
                deputy.store(seat, ordering: .sequentiallyConsistent)
                isWatched.store(true, ordering: .sequentiallyConsistent)
            } else {
                waiting.parked.append(seat)
            }
        }
        var looksInVain = 0
        while reader.load(ordering: .acquiring) != seat {
            if deputy.load(ordering: .acquiring) == seat, isWatched.load(ordering: .sequentiallyConsistent) {
                watch(seat, &looksInVain)
            } else {
                sem_wait(semaphores + seat)
            }
        }
    }

    /// One check by the deputy.
    private func watch(_ seat: Int, _ looksInVain: inout Int) {
        let before = busySince.load(ordering: .sequentiallyConsistent)
        let count = served.load(ordering: .relaxed)
        sleep(seat, Self.deputysPause)
        guard reader.load(ordering: .acquiring) != seat else { return }
        let now = busySince.load(ordering: .sequentiallyConsistent)
        if now != 0, now == before { return relieve(by: seat, of: now) }
        looksInVain = now == 0 && served.load(ordering: .relaxed) == count ? looksInVain + 1 : 0
        guard looksInVain >= Self.idleLooks else { return }
        looksInVain = 0
        isWatched.store(false, ordering: .sequentiallyConsistent)
        // A reader that began just before still found the deputy awake.
        if busySince.load(ordering: .sequentiallyConsistent) != 0 {
            isWatched.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// - Parameter limit: in nanoseconds.
    private func sleep(_ seat: Int, _ limit: Int64) { _ = CUbiquity_waitForSemaphore(semaphores + seat, limit) }

    /// Gives the turn to the deputy because the reader is stuck in a request.
    private func relieve(by seat: Int, of request: UInt64) {
        wake(
            waiting.withLock { waiting in
                guard deputy.load(ordering: .relaxed) == seat,
                    busySince.compareExchange(
                        expected: request, desired: 0, ordering: .sequentiallyConsistent
                    ).exchanged
                else { return 0 }
                reader.store(seat, ordering: .releasing)
                let next = waiting.parked.popLast() ?? 0
                deputy.store(next, ordering: .sequentiallyConsistent)
                return next
            })
    }

    private func wake(_ seat: Int) {
        if seat != 0 { sem_post(semaphores + seat) }
    }

    // MARK: Serving

    private func begin(_ request: UInt32, _ seat: Int) {
        guard reader.load(ordering: .acquiring) == seat else { return }
        guard OpcodeSet.quick.contains(request) else { return handOn(seat) }
        if gathersForgets, isAtEase.load(ordering: .relaxed), OpcodeSet.answerless.contains(request) {
            gathers.store(true, ordering: .relaxed)
        }
        served.add(1, ordering: .relaxed)
        begun[seat] = Self.now()
        busySince.store(begun[seat], ordering: .sequentiallyConsistent)
        guard !isWatched.load(ordering: .sequentiallyConsistent) else { return }
        isWatched.store(true, ordering: .sequentiallyConsistent)
        wake(deputy.load(ordering: .sequentiallyConsistent))
    }

    private func handOn(_ seat: Int) {
        wake(
            waiting.withLock { waiting in
                guard reader.load(ordering: .relaxed) == seat else { return 0 }
                var next = waiting.parked.popLast() ?? 0
                if next == 0 {
                    next = deputy.load(ordering: .relaxed)
                    deputy.store(0, ordering: .sequentiallyConsistent)
                }
                reader.store(next, ordering: .releasing)
                return next
            })
    }

    // MARK: Polling

    private func lookOutAndRead(
        _ seat: Int, _ descriptor: Int32, _ buffer: UnsafeMutableRawPointer?, _ length: Int
    ) -> Int {
        if gathers.exchange(false, ordering: .relaxed) { sleep(seat, Self.gathering) }
        guard looksOut, !isAtEase.load(ordering: .relaxed) else { return Glibc.read(descriptor, buffer, length) }
        let start = Self.now()
        let isHopeful = hope.load(ordering: .relaxed) > 0
        let isThere = isHopeful && waits(descriptor, until: start + Self.lookout)
        if isHopeful, !isThere { hope.subtract(1, ordering: .relaxed) }
        let count = Glibc.read(descriptor, buffer, length)
        guard count > 0 else { return count }
        if Self.now() - start < Self.lookout, hope.load(ordering: .relaxed) < Self.maximumHope {
            hope.add(1, ordering: .relaxed)
        }
        return count
    }

    /// Polls until a request arrives or the time is over.
    /// - Returns: whether a request waits.
    private func waits(_ descriptor: Int32, until end: UInt64) -> Bool {
        var device = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        repeat {
            if poll(&device, 1, 0) != 0 { return true }
        } while Self.now() < end
        return false
    }

    private static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
