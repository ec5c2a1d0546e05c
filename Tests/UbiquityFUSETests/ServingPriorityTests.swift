import Testing

@testable import UbiquityFUSE

/// The yielding of request threads to programs.
@Suite struct ServingPriorityTests {
    /// Observations from `number` on until it yields again; nil if that exceeds the limit.
    private func looksUntilYielding(_ priority: inout ServingPriority, from number: Int) -> Int? {
        for look in 1...(ServingPriority.longestCalm + 2) where priority.look(number + look, isStarved: false) {
            return look
        }
        return nil
    }

    @Test func yieldsWhileNobodyWaits() {
        var priority = ServingPriority()
        for number in 1...10_000 {
            let changes = priority.look(number, isStarved: false)
            #expect(!changes)
        }
        #expect(priority.isYielding)
    }

    /// If programs wait again soon after a yield, the pause grows each time; after a long good time it is short again.
    @Test func yieldsAgainAfterIncreasingPauses() {
        var priority = ServingPriority()
        var number = 1, expected = ServingPriority.shortestCalm
        for _ in 0..<12 {
            let begins = priority.look(number, isStarved: true)
            #expect(begins && !priority.isYielding)
            let looks = looksUntilYielding(&priority, from: number)
            #expect(looks == expected + 1)
            #expect(priority.isYielding)
            number += (looks ?? 0) + 1
            expected = min(expected * 2, ServingPriority.longestCalm)
        }
        number += ServingPriority.longestCalm * ServingPriority.steadiness + 1
        let begins = priority.look(number, isStarved: true)
        let looks = looksUntilYielding(&priority, from: number)
        #expect(begins && looks == ServingPriority.shortestCalm + 1)
    }

    /// During a pause no program waits because of a yield, so the observations mean nothing.
    @Test func requestsDuringAPauseAreNotCounted() {
        var priority = ServingPriority()
        let begins = priority.look(1, isStarved: true)
        #expect(begins)
        for number in 2...(ServingPriority.shortestCalm + 1) {
            let changes = priority.look(number, isStarved: true)
            #expect(!changes)
        }
        let ends = priority.look(ServingPriority.shortestCalm + 2, isStarved: true)
        #expect(ends)
        #expect(priority.isYielding)
    }
}
