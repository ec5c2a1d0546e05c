import Testing
import UbiquityControl

/// The changes that a live query reports.
@Suite struct LiveResultsTests {
    @Test("DQ-01: a new match is added, then changed, then removed; other items are not reported")
    func changes() {
        var results = LiveResults<Int>()
        #expect(results.take(1, isResult: false) == nil)
        #expect(results.take(1, isResult: true) == .added)
        #expect(results.take(1, isResult: true) == .changed)
        #expect(results.take(1, isResult: false) == .removed)
        #expect(results.take(1, isResult: false) == nil)
        #expect(results.count == 0)
    }

    @Test("DQ-01: a repeated gathering finds missed changes")
    func gatheringAnew() {
        var results = LiveResults<Int>()
        for id in 1...3 { _ = results.take(id, isResult: true) }
        results.beginGathering()
        #expect(results.take(1, isResult: true) == .changed)
        #expect(results.take(2, isResult: false) == .removed)
        #expect(results.take(4, isResult: true) == .added)
        let missing = results.endGathering()
        #expect(missing == [3])
        #expect(results.take(3, isResult: false) == .removed)
        #expect(results.count == 2)
        #expect(results.endGathering().isEmpty)
    }

    @Test("DQ-01: applied updates always give the results", arguments: 0..<50)
    func followerAgrees(_ seed: Int) {
        var state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1
        func random(_ limit: Int) -> Int {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int(state >> 33) % limit
        }
        var truth = Set<Int>(), told = Set<Int>(), results = LiveResults<Int>()
        func take(_ id: Int) {
            switch results.take(id, isResult: truth.contains(id)) {
            case .added: #expect(told.insert(id).inserted)
            case .changed: #expect(told.contains(id))
            case .removed: #expect(told.remove(id) != nil)
            case nil: #expect(!told.contains(id))
            }
        }
        for _ in 0..<200 {
            for _ in 0..<random(5) { truth.formSymmetricDifference([random(20)]) }
            if random(10) == 0 {
                results.beginGathering()
                for id in truth.sorted() { take(id) }
                for id in results.endGathering() { take(id) }
                #expect(told == truth)
            } else {
                take(random(20))
            }
        }
        for id in 0..<20 { take(id) }
        #expect(told == truth && results.count == truth.count)
    }
}
