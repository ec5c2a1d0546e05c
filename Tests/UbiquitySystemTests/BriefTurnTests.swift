import Glibc
import Testing
import UbiquitySystem

@Suite struct BriefTurnTests {
    private struct Refusal: Error {}

    @Test func oneAtATime() async {
        let turn = BriefTurn()
        let total = Box()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    for _ in 0..<20_000 {
                        if number == 0 { turn.takeLast { total.value += 1 } } else { turn.take { total.value += 1 } }
                    }
                }
            }
        }
        #expect(total.value == 80_000)
    }

    @Test func itIsGivenBackByWhoFails() {
        let turn = BriefTurn()
        #expect(throws: Refusal.self) { try turn.take { throw Refusal() } }
        #expect(throws: Refusal.self) { try turn.takeLast { throw Refusal() } }
        #expect(turn.take { 1 } == 1)
    }

    /// Longer than anybody waits awake.
    @Test(.timeLimit(.minutes(1))) func whoWaitsLongGetsIt() async {
        let turn = BriefTurn()
        let isTaken = Lock(false), order = Lock([Int]())
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                turn.take {
                    isTaken.withLock { $0 = true }
                    usleep(50_000)
                    order.withLock { $0.append(1) }
                }
            }
            while !isTaken.withLock({ $0 }) { await Task.yield() }
            group.addTask { turn.take { order.withLock { $0.append(2) } } }
        }
        #expect(order.withLock { $0 } == [1, 2])
    }

    private final class Box: @unchecked Sendable {
        var value = 0
    }
}
