import Testing

@testable import UbiquitySync

@Suite struct RoomWatchTests {
    private let gigabyte: Int64 = 1_000_000_000

    @Test func aDiskThatFillsIsLookedAtMoreOften() {
        var watch = RoomWatch().looked(free: 9 * gigabyte, took: .zero)
        var last = watch.pause
        for free in [8, 4, 2, 1].map({ $0 * gigabyte / 2 }) {
            watch = watch.looked(free: free, took: .zero)
            #expect(watch.pause <= last)
            #expect(watch.pause <= .nanoseconds(free / 8), "four looks before 2 GB a second have filled it")
            last = watch.pause
        }
        #expect(watch.looked(free: 1000, took: .zero).pause == .milliseconds(20))
    }

    @Test func aFileThatIsOnlyOpenIsLookedAfterOnceASecond() {
        var watch = RoomWatch()
        for _ in 0..<10 { watch = watch.looked(free: 1000, took: .zero) }
        #expect(watch.pause == .seconds(1))
        #expect(watch.looked(free: 999, took: .zero).pause == .milliseconds(20))
    }

    @Test func lookingTakesATenthOfTheTime() {
        #expect(RoomWatch().looked(free: 1000, took: .milliseconds(50)).pause == .milliseconds(450))
        #expect(RoomWatch().looked(free: 1000, took: .seconds(50)).pause == .seconds(1))
    }
}
