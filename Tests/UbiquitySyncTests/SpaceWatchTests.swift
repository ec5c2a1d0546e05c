import Testing

@testable import UbiquitySync

@Suite struct SpaceWatchTests {
    private let gigabyte: Int64 = 1_000_000_000

    @Test func fillingDiskIsCheckedMoreOften() {
        var watch = SpaceWatch().looked(free: 9 * gigabyte, left: 9 * gigabyte, took: .zero)
        var last = watch.pause
        for free in [8, 4, 2, 1].map({ $0 * gigabyte / 2 }) {
            watch = watch.looked(free: free, left: free, took: .zero)
            #expect(watch.pause <= last)
            #expect(watch.pause <= .nanoseconds(free / 8), "four looks before 2 GB a second have filled it")
            last = watch.pause
        }
        #expect(watch.looked(free: 1000, left: 1000, took: .zero).pause == .milliseconds(20))
    }

    /// A writer that used some space since the last check uses as much again, and more, before the next.
    @Test func spaceIsFreedAheadOfAWriter() {
        let watch = SpaceWatch().looked(free: 100_000, left: 150_000, took: .zero)
        #expect(watch.ahead(of: 120_000, floor: 100_000) == 60_000)
        #expect(watch.ahead(of: 120_000, floor: 50_000) == 50_000)
        #expect(watch.ahead(of: 160_000, floor: 100_000) == 0)
        #expect(SpaceWatch().ahead(of: 100_000, floor: 100_000) == 0, "nothing is known of it yet")
    }

    @Test func idleOpenFileIsCheckedOnceASecond() {
        var watch = SpaceWatch()
        for _ in 0..<10 { watch = watch.looked(free: 1000, left: 1000, took: .zero) }
        #expect(watch.pause == .seconds(1))
        #expect(watch.looked(free: 999, left: 999, took: .zero).pause == .milliseconds(20))
    }

    @Test func fruitlessChecksTakeATenthOfTheTime() {
        #expect(SpaceWatch().looked(free: 1000, left: 2000, took: .milliseconds(50)).pause == .milliseconds(40))
        #expect(SpaceWatch().looked(free: 1000, left: 1000, took: .milliseconds(50)).pause == .milliseconds(450))
        #expect(SpaceWatch().looked(free: 1000, left: 1000, took: .seconds(50)).pause == .seconds(1))
    }
}
