import Synchronization
import Testing
import UbiquitySystem

@Suite struct SideThreadTests {
    private struct First: Error {}
    private struct Second: Error {}

    private let side = SideThread(BlockingPool(name: "side", threads: 1))

    @Test func bothRunAtOneTime() throws {
        let isThere = (Monitor(false), Monitor(false))
        @Sendable func meet(_ own: Monitor<Bool>, _ other: Monitor<Bool>) throws {
            own.withLock { $0 = true }
            own.signal()
            try #require(other.wait(atMost: .seconds(30)) { $0 ? true : nil } == true)
        }
        try side.run { try meet(isThere.0, isThere.1) } beside: { try meet(isThere.1, isThere.0) }
    }

    @Test func bothEndEvenIfOneFails() throws {
        let seconds = Atomic(0)
        func run(first: (any Error)?, second: (any Error)?) throws {
            // The second body continues only when the first has ended.
            let isAtEnd = Monitor(false)
            try side.run {
                isAtEnd.withLock { $0 = true }
                isAtEnd.signal()
                if let first { throw first }
            } beside: {
                _ = isAtEnd.wait(atMost: .seconds(30)) { $0 ? true : nil }
                seconds.add(1, ordering: .relaxed)
                if let second { throw second }
            }
        }
        #expect(throws: First.self) { try run(first: First(), second: Second()) }
        #expect(seconds.load(ordering: .relaxed) == 1)
        #expect(throws: Second.self) { try run(first: nil, second: Second()) }
        #expect(throws: First.self) { try run(first: First(), second: nil) }
        try run(first: nil, second: nil)
        #expect(seconds.load(ordering: .relaxed) == 4)
    }

    @Test func busyThreadLeavesBothToTheCaller() throws {
        let order = Lock([Int]())
        try side.run {
            try side.run { order.withLock { $0.append(1) } } beside: { order.withLock { $0.append(2) } }
            #expect(throws: First.self) {
                try side.run { throw First() } beside: { order.withLock { $0.append(9) } }
            }
        } beside: {}
        #expect(order.withLock { $0 } == [1, 2])
    }

    @Test func withoutAThreadTheCallerDoesBoth() throws {
        let order = Lock([Int]())
        let alone = SideThread(nil)
        try alone.run { order.withLock { $0.append(1) } } beside: { order.withLock { $0.append(2) } }
        #expect(throws: First.self) { try alone.run { throw First() } beside: { order.withLock { $0.append(9) } } }
        #expect(order.withLock { $0 } == [1, 2])
    }
}
