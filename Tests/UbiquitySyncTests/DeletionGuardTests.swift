import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync

/// Deletions that are sent at once, after a moment, or only after a confirmation.
@Suite struct DeletionGuardTests {
    private func time(_ seconds: Double) -> Timestamp {
        Timestamp(seconds: 1_000_000, nanoseconds: 0).advanced(bySeconds: seconds)
    }
    /// So many deletions, evenly over `seconds` up to moment 0.
    private func deletions(_ count: Int, over seconds: Double) -> [DeletionMoment] {
        (0..<count).map { deletion($0, at: -seconds + seconds * Double($0 + 1) / Double(count)) }
    }
    /// Of the item with that number in its name.
    private func deletion(_ number: Int, at seconds: Double) -> DeletionMoment {
        DeletionMoment(time: time(seconds), folder: .root, name: ItemName(stored: Array("\(number)".utf8)))
    }

    @Test(arguments: [
        (1, 0, DeletionGuard.Verdict.send), (50, 0, .send), (100, 0, .send), (101, 0, .hold), (101, 100, .hold),
        (101, 101, .send), (101, 100_000, .send), (60_000, 50_000, .hold),
    ])
    func deletionsAreSentAfterTheBurst(_ count: Int, _ others: Int, _ expected: DeletionGuard.Verdict) {
        let verdict = DeletionGuard().verdict(pending: deletions(count, over: 10), items: others, now: time(5))
        #expect(verdict == expected)
    }

    @Test func deletionsWaitWhileBurstMayGoOn() {
        let pending = deletions(6, over: 1)
        #expect(DeletionGuard().verdict(pending: pending, items: 500, now: time(1)) == .wait(until: time(2)))
        #expect(DeletionGuard().verdict(pending: pending, items: 500, now: time(2)) == .send)
        #expect(DeletionGuard().verdict(pending: deletions(5, over: 1), items: 500, now: time(0.3)) == .send)
        #expect(DeletionGuard().verdict(pending: deletions(5, over: 1), items: 500, now: time(0.2)) == .wait(until: time(0.25)))
    }

    @Test func smallTreesDelayNoDeletion() {
        #expect(DeletionGuard().verdict(pending: deletions(60, over: 1), items: 40, now: time(0)) == .send)
    }

    @Test func burstWithoutPauseWaitsAtMostTheWindow() {
        #expect(DeletionGuard().verdict(pending: deletions(6000, over: 59), items: 90_000, now: time(0.5)) != .send)
        #expect(DeletionGuard().verdict(pending: deletions(6000, over: 61), items: 90_000, now: time(0.5)) == .send)
    }

    /// A hundred files a day for a month, offline, are no mistake.
    @Test func deletionsFarApartDoNotCountTogether() {
        var pending = [DeletionMoment]()
        for number in 0..<3000 {
            let day = Double(number / 100), place = Double(number % 100)
            pending.append(deletion(number, at: -86_400 * day - 0.1 * place))
        }
        #expect(DeletionGuard().verdict(pending: pending, items: 10, now: time(10)) == .send)
    }

    @Test func sentDeletionsCountForAMinute() {
        var guarding = DeletionGuard()
        guarding.noteSent(deletions(50, over: 1), now: time(0))
        let later = (0..<51).map { deletion(1000 + $0, at: 20) }
        #expect(guarding.verdict(pending: later, items: 40, now: time(30)) == .hold)
        let muchLater = (0..<51).map { deletion(1000 + $0, at: 100) }
        guarding.noteSent([], now: time(110))
        #expect(guarding.verdict(pending: muchLater, items: 40, now: time(110)) == .send)
    }

    /// A program that recreates the same few files repeatedly removes no more than these.
    @Test func oneNameCountsOnce() {
        var guarding = DeletionGuard()
        let cycles = (0..<400).map { deletion($0 % 10, at: -40 + Double($0) / 10) }
        guarding.noteSent(Array(cycles.prefix(200)), now: time(0))
        #expect(guarding.verdict(pending: Array(cycles.suffix(200)), items: 10, now: time(5)) == .send)
        // Beside them a mass deletion is put on hold as before.
        let slip = deletions(101, over: 1)
        #expect(guarding.verdict(pending: cycles.suffix(200) + slip, items: 10, now: time(5)) == .hold)
    }

    @Test func clockSetBackEndsTheHold() {
        let future = (0..<60).map { deletion($0, at: 1_000_000) }
        guard case .wait(let until) = DeletionGuard().verdict(pending: future, items: 500, now: time(0)) else {
            return
        }
        #expect(until <= time(DeletionGuard.quiet))
    }

    /// Created by this device within the hour, and written by no other.
    @Test(arguments: [
        (Double?(0), DeviceID?.none, true), (3599, .none, true), (3600, .none, false), (nil, .none, false),
        (-1, .none, false), (10, own, true), (10, other, false),
    ]) func ownFreshItemDoesNotCount(age: Double?, writer: DeviceID?, isFresh: Bool) {
        var deletion = deletion(1, at: 10_000)
        deletion.madeAt = age.map { deletion.time.advanced(bySeconds: -$0) }
        deletion.writer = writer
        #expect(deletion.isOfFreshItem(madeOn: Self.own, within: DeletionGuard.freshAge) == isFresh)
    }

    private static let own = DeviceID(high: 1, low: 1)
    private static let other = DeviceID(high: 1, low: 2)
}
