import Glibc
import Synchronization
import Testing
@testable import UbiquityFUSE
import UbiquitySystem

/// Threads like libfuse's, which read requests from a socket in the device's place. Each request has a number and a
/// kind, as in the kernel's header.
@Suite struct ReadingTurnTests {
    private static let lookup: UInt32 = 1
    private static let read: UInt32 = 15
    private static let forget: UInt32 = 2
    private static let interrupt: UInt32 = 36

    private final class Loop: Sendable {
        let turn: ReadingTurn
        let device: Int32
        let kernel: Int32
        let served = Lock<[UInt32: Int]>([:])
        /// While it is held, the thread that serves request 0 is stuck.
        let gate = Monitor(false)
        private let threads = Lock<[pthread_t]>([])

        init(threads count: Int, cores: Int, policy: ServingPolicy = .tuned) throws {
            var ends: [Int32] = [0, 0]
            try #require(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends) == 0)
            (device, kernel) = (ends[0], ends[1])
            turn = ReadingTurn(policy: policy, cores: cores)
            for _ in 0..<count { try start() }
        }

        private func start() throws {
            var thread = pthread_t()
            let code = pthread_create(
                &thread, nil,
                { context in
                    guard let context else { return nil }
                    Unmanaged<Loop>.fromOpaque(context).takeUnretainedValue().run()
                    return nil
                }, Unmanaged.passUnretained(self).toOpaque())
            try #require(code == 0)
            threads.withLock { $0.append(thread) }
        }

        private func run() {
            let buffer = UnsafeMutableRawPointer.allocate(byteCount: 64, alignment: 8)
            var old: Int32 = 0
            while true {
                pthread_setcancelstate(Int32(PTHREAD_CANCEL_ENABLE), &old)
                let count = turn.read(device, buffer, 64)
                pthread_setcancelstate(Int32(PTHREAD_CANCEL_DISABLE), &old)
                guard count == 8 else { continue }
                let number = buffer.load(as: UInt32.self)
                if number == 0 { _ = gate.wait(atMost: .seconds(600)) { $0 ? true : nil } }
                served.withLock { $0[number, default: 0] += 1 }
            }
        }

        func send(_ number: UInt32, _ kind: UInt32) {
            var request = [number, kind]
            write(kernel, &request, 8)
        }

        /// Cancels the threads at any point, as libfuse does.
        func end() {
            for thread in threads.withLock({ $0 }) { pthread_cancel(thread) }
            for thread in threads.withLock({ $0 }) { pthread_join(thread, nil) }
            close(device)
            close(kernel)
        }

        /// Waits for a state, at most a minute.
        func eventually(_ holds: ([UInt32: Int]) -> Bool) async throws {
            let deadline = ContinuousClock.now + .seconds(60)
            while !served.withLock({ holds($0) }) {
                try #require(ContinuousClock.now < deadline)
                try await Task.sleep(for: .milliseconds(2))
            }
        }
    }

    @Test(arguments: [1, 2]) func eachRequestIsServedOnceAndTheThreadsEnd(cores: Int) async throws {
        let loop = try Loop(threads: 6, cores: cores)
        for number in 1...UInt32(20_000) { loop.send(number, number % 7 < 5 ? Self.lookup : Self.read) }
        try await loop.eventually { $0.count == 20_000 }
        #expect(loop.served.withLock { $0.values.allSatisfy { $0 == 1 } })
        loop.end()
    }

    @Test func plainPolicyServesEachRequestOnce() async throws {
        let loop = try Loop(threads: 6, cores: 2, policy: .plain)
        for number in 1...UInt32(2_000) { loop.send(number, number % 7 < 5 ? Self.lookup : Self.read) }
        try await loop.eventually { $0.count == 2_000 }
        #expect(loop.served.withLock { $0.values.allSatisfy { $0 == 1 } })
        loop.end()
    }

    /// If nothing else arrives by the device, forgets gather; requests among them are served all the same.
    @Test func forgetsAndInterruptsAreServedWhileForgetsGather() async throws {
        let loop = try Loop(threads: 3, cores: 2)
        loop.turn.beAtEase()
        for number in 1...UInt32(300) { loop.send(number, number % 3 == 0 ? Self.interrupt : Self.forget) }
        try await loop.eventually { $0.count == 300 }
        #expect(loop.served.withLock { $0.values.allSatisfy { $0 == 1 } })
        // A thread stuck in forgets delays no interrupt.
        loop.send(0, Self.forget)
        loop.send(301, Self.interrupt)
        try await loop.eventually { $0[301] == 1 && $0[0] == nil }
        loop.gate.withLock { $0 = true }
        loop.gate.broadcast()
        try await loop.eventually { $0[0] == 1 }
        loop.end()
    }

    /// After a pause with all threads asleep, as well as at once.
    @Test(arguments: [ReadingTurnTests.lookup, ReadingTurnTests.read], [false, true])
    func stuckRequestBlocksNoOther(kind: UInt32, rested: Bool) async throws {
        let loop = try Loop(threads: 3, cores: 2)
        if rested { try await loop.eventually { _ in loop.turn.isAtRest } }
        loop.send(0, kind)
        for number in 1...UInt32(100) { loop.send(number, Self.lookup) }
        try await loop.eventually { $0.count == 100 && $0[0] == nil }
        for number in 101...UInt32(200) { loop.send(number, Self.read) }
        try await loop.eventually { $0.count == 200 && $0[0] == nil }
        loop.gate.withLock { $0 = true }
        loop.gate.broadcast()
        try await loop.eventually { $0[0] == 1 }
        loop.end()
    }
}
