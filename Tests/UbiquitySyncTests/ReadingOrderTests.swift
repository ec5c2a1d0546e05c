import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
@testable import UbiquitySync

@Suite struct ReadingOrderTests: WorldTests {
    static let seed: UInt64 = 7

    private func names(_ numbers: Range<Int>) -> [ItemName] { numbers.map { ItemName(stored: Array("f\(1000 + $0)".utf8)) } }

    /// Opens these, a millisecond apart, in a folder of 100 files.
    private func open(_ numbers: some Sequence<Int>, _ order: inout ReadingOrder, in folder: ItemKey = .root) -> [Int] {
        numbers.enumerated().map { turn, number in
            let span = order.span(in: folder)
            return order.opened(
                names(number..<number + 1)[0], in: folder, upcoming: names(number + 1..<min(number + 1 + span, 100)),
                now: Timestamp(nanoseconds: Int64(turn) * 1_000_000))
        }
    }

    @Test func orderedReadsRequestTheNextFiles() {
        var order = ReadingOrder()
        #expect(open(0..<4, &order) == [0, 0, 0, 4])
        // Reads of downloaded files are not reported.
        #expect(open([8, 17], &order) == [8, 16])
        // Another folder has a run of its own, and this one continues.
        #expect(open(0..<3, &order, in: ItemKey(7)) == [0, 0, 0])
        #expect(open([34], &order) == [16])
    }

    @Test func unorderedReadsRequestNothing() {
        var order = ReadingOrder()
        #expect(open((0..<40).reversed(), &order) == Array(repeating: 0, count: 40))
        #expect(open(stride(from: 0, to: 100, by: 30), &order) == [0, 0, 0, 0])
    }

    @Test func slowReaderGetsNoReadAhead() {
        var order = ReadingOrder()
        for number in 0..<10 {
            let wanted = order.opened(
                names(number..<number + 1)[0], in: .root, upcoming: names(number + 1..<number + 9),
                now: Timestamp(nanoseconds: Int64(number) * 2_100_000_000))
            #expect(wanted == 0)
        }
    }

    /// The feed has brought its list of chunks.
    @Test func smallFileNeedsOneRequest() async throws {
        try await run { world in
            let bytes = world.random.bytes(4096)
            try await world.a.create("f", bytes)
            try await world.settle()
            #expect(try world.b.live("f").isPlaceholder)
            world.b.link.resetCounts()
            #expect(try await world.b.read("f") == bytes)
            let counts = world.b.link.counts
            #expect(counts.calls == [.fetchChunks: 1] && counts.fetchedBytes == bytes.count)
        }
    }

    /// Each request and each answer takes 50 ms.
    @Test func orderedFolderReadIsDownloadedAhead() async throws {
        try await run { world in
            for number in 0..<120 { try await world.a.create("\(number < 60 ? "d" : "e")\(100 + number)", [UInt8(number)]) }
            try await world.settle()
            var slow = NetworkConditions.perfect
            slow.delay = .milliseconds(50)...(.milliseconds(50))
            world.b.link.setConditions(slow)
            func time(_ numbers: some Sequence<Int>) async throws -> Duration {
                let start = world.world.uptime
                for number in numbers {
                    #expect(try await world.b.read("\(number < 60 ? "d" : "e")\(100 + number)") == [UInt8(number)])
                }
                return world.world.uptime - start
            }
            let backwards = try await time((0..<60).reversed())
            let forwards = try await time(60..<120)
            #expect(backwards >= .seconds(3), "one after the other")
            #expect(forwards * 4 < backwards, "\(forwards) and \(backwards)")
        }
    }

    /// A reader that opens a few files gets these, and no others.
    @Test func readsOutOfOrderGetNoReadAhead() async throws {
        try await run { world in
            for number in 0..<40 { try await world.a.create("f\(100 + number)", [UInt8(number)]) }
            try await world.settle()
            for number in [0, 1, 2, 9, 20, 30, 29, 28] { _ = try await world.b.read("f\(100 + number)") }
            try await world.settle()
            let here = try world.b.paths().filter { $0.row.kind == .file && !$0.row.isPlaceholder }.count
            #expect(here == 8)
        }
    }
}
