import Testing
import UbiquitySystem

@Suite struct IdleWatchTests {
    @Test func idlenessIsReportedOnce() {
        var watch = IdleWatch(), looks: [Bool] = []
        for milliseconds in [0, 3000, 3010, 3012, 3020, 3069, 3119, 3130, 3131] as [Int64] {
            looks.append(watch.beginsToRest(.milliseconds(milliseconds)))
        }
        // The first observation has no earlier one to compare; 3119 is 50 ms after the one before.
        #expect(looks == [false, false, true, false, false, false, false, true, false])
    }

    @Test func computedTimeGrows() {
        let before = ProcessHost.computedTime
        var sum = 0
        repeat { for number in 0..<10_000 { sum &+= number } } while ProcessHost.computedTime == before
        #expect(sum != 0)
        ProcessHost.returnMemory()
    }
}
