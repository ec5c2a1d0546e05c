import Testing
import UbiquityCore
import UbiquitySync
import UbiquitySystem
import UbiquityTestSupport

/// A cloud, or a proxy before it, that accepts some requests and refuses others.
@Suite struct BusyCloudTests: WorldTests {
    static let seed: UInt64 = 11
    private static let soon = Duration.seconds(12)

    private func bytes(_ count: Int, _ first: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 * first) } }

    /// Its small members exceed one commit and are sent before it. The cloud has no space for them.
    @Test(arguments: [UbiquityError.Code.noSpace, .tooLarge])
    func refusedPackageDelaysNoOther(code: UbiquityError.Code) async throws {
        try await run { world in
            for _ in 0..<40 { world.a.link.script(.upload, .fail(UbiquityError(code, "no room"))) }
            try world.a.makeFolder("d.rtfd")
            for number in 1...30 { try await world.a.create("d.rtfd/\(number)", bytes(60_000, number), synced: true) }
            try await world.sleep(Self.soon)
            try await world.a.create("other", [1, 2, 3], synced: true)
            try await world.sleep(Self.soon)
            #expect(try await world.b.read("other") == [1, 2, 3])
            #expect(try world.b.row("d.rtfd/1") == nil)
            try await world.sleep(.seconds(1200))
            try await world.settle()
            #expect(try await world.b.read("d.rtfd/30") == bytes(60_000, 30))
            try await world.check()
        }
    }

    /// The cloud cannot read its record of one item.
    @Test func damagedItemAtCloudDelaysNoOther() async throws {
        try await run { world in
            for _ in 0..<2 { world.a.link.script(.commit, .fail(UbiquityError(.damaged, "unreadable"))) }
            for path in ["damaged", "whole"] { try await world.a.create(path, [1], synced: true) }
            try await world.sleep(.seconds(3))
            #expect(try await world.b.read("whole") == [1])
            try await world.settle()
            #expect(try await world.b.read("damaged") == [1])
        }
    }

    /// Nothing is sent of a content that the cloud would refuse as a whole.
    @Test func fileBeyondTheQuotaIsNotSent() async throws {
        try await run { world in
            world.cloud.setQuota(1_000_000)
            try await world.a.create("f", world.random.bytes(1000))
            try await world.settle()
            world.a.link.resetCounts()
            let large = world.random.bytes(2_000_000)
            try await world.a.edit("f") { _ in large }
            try await world.sleep(.seconds(60))
            #expect(try world.a.engine.status(of: world.a.live("f")).uploadingError?.code == .quotaExceeded)
            #expect(world.a.link.counts.uploadedBytes == 0)
            world.cloud.setQuota(10_000_000)
            try await world.settle()
            #expect(try await world.b.read("f") == large)
            try await world.check()
        }
    }

    /// Many such files are not retried one by one, again and again.
    @Test func manyFilesBeyondTheQuotaCostLittle() async throws {
        try await run { world in
            world.cloud.setQuota(100_000)
            try await world.a.create("first", world.random.bytes(50_000))
            try await world.settle()
            world.a.link.resetCounts()
            for number in 0..<200 {
                try await world.a.create("f\(number)", world.random.bytes(20_000))
            }
            try await world.sleep(.seconds(600))
            // A fitting file is uploaded.
            #expect(try world.b.paths().count == 3)
            let counts = world.a.link.counts
            #expect(counts.calls[.commit, default: 0] < 20 && counts.uploadedBytes < 10_000_000, "\(counts)")
            // A deletion meanwhile waits for nothing.
            try world.a.remove("f199")
            try await world.sleep(.seconds(5))
            #expect(try world.a.engine.summary().pendingUploads == 197)
            try world.a.remove("first")
            try await world.sleep(.seconds(60))
            #expect(try world.b.row("first") == nil)
            world.cloud.setQuota(10_000_000)
            try await world.settle()
            #expect(try world.b.paths().count == 199)
            try await world.check()
        }
    }

    /// More such files than one read takes in do not delay a package's changes, or its removal, which frees space.
    @Test func manyFilesBeyondTheQuotaDoNotKeepPackagesWaiting() async throws {
        try await run { world in
            world.cloud.setQuota(200_000)
            try world.a.makeFolder("d.rtfd")
            for name in ["one", "two"] { try await world.a.create("d.rtfd/" + name, world.random.bytes(50_000)) }
            try await world.a.create("first", world.random.bytes(50_000))
            try await world.settle()
            for number in 0..<1200 { try await world.a.create("f\(number)", world.random.bytes(60_000)) }
            try await world.sleep(.seconds(300))
            try await world.a.edit("d.rtfd/one") { _ in [1] }
            try await world.sleep(.seconds(120))
            #expect(try await world.b.read("d.rtfd/one") == [1])
            try world.a.remove("d.rtfd")
            try await world.sleep(.seconds(120))
            #expect(try world.b.row("d.rtfd") == nil)
            world.cloud.setQuota(1 << 40)
            try await world.settle()
            try await world.check()
        }
    }

    /// Another name of such a file does not send it, again and again.
    @Test func linkOfAFileBeyondTheQuotaWaits() async throws {
        try await run { world in
            world.cloud.setQuota(100_000)
            try await world.a.create("first", world.random.bytes(50_000))
            try await world.settle()
            world.a.link.resetCounts()
            let large = world.random.bytes(60_000)
            try await world.a.create("f", large)
            try world.a.makeHardLink("g", to: "f")
            try await world.sleep(.seconds(600))
            let counts = world.a.link.counts
            #expect(counts.calls[.commit, default: 0] < 40, "\(counts)")
            #expect(try world.b.paths().count == 1)
            world.cloud.setQuota(10_000_000)
            try await world.settle()
            for path in ["f", "g"] { #expect(try await world.b.read(path) == large) }
            try await world.check()
        }
    }

    /// It has a name that another device has given to an edited file. A device that removes the name here has not seen
    /// the edit.
    @Test func removalKeepsAnEditThatWaitsForTheName() async throws {
        try await run { world in
            world.cloud.setQuota(100_000)
            try await world.a.create("draft", [1])
            try await world.settle()
            _ = try await world.b.read("draft")
            try await world.b.create("report", world.random.bytes(200_000))
            try await world.sleep(.seconds(5))
            for _ in 0..<100 { world.b.link.script(.fetchChunks, .fail(UbiquityError(.damaged, "damaged on its way"))) }
            try world.a.rename("draft", "report")
            try await world.a.edit("report") { _ in [1, 2] }
            try await world.sleep(.seconds(20))
            try world.b.remove("draft")
            try await world.sleep(.seconds(60))
            #expect(try await world.a.read("report") == [1, 2])
            world.cloud.setQuota(10_000_000)
            try await world.settle()
            try await world.check()
        }
    }

    /// A program that makes small files continuously delays no large upload, and no resolution.
    @Test func smallFilesDoNotDelayALargeOne() async throws {
        try await run { world in
            // A line on which a commit takes longer than the next file.
            for _ in 0..<400 { world.a.link.script(.commit, .hold(.milliseconds(150))) }
            let large = world.random.bytes(400_000)
            try await world.a.create("large", large)
            var arrivedAt: Int?
            for number in 0..<400 where arrivedAt == nil {
                try await world.a.create("small\(number)", [UInt8(number % 250)])
                try await world.sleep(.milliseconds(50))
                let content = try await world.cloud.items().first { "\($0.name)" == "large" }?.content
                if content?.isAvailable == true { arrivedAt = number }
            }
            #expect(arrivedAt != nil)
            try await world.settle()
            try await world.check()
        }
    }

    /// The cloud accepts only a part of the upload: then it is sent in parts, at once.
    @Test func tooLargeUploadIsSplit() async throws {
        try await run { world in
            for _ in 0..<2 { world.a.link.script(.upload, .fail(UbiquityError(.tooLarge, "too large"))) }
            try await world.a.create("f", bytes(3_000_000, 7), synced: true)
            try await world.sleep(.seconds(4))
            #expect(try await world.b.read("f") == bytes(3_000_000, 7))
        }
    }

    /// It is busy with others: that does not count as an outage.
    @Test func busyCloudIsRetried() async throws {
        try await run { world in
            for _ in 0..<3 { world.a.link.script(.upload, .fail(UbiquityError(.tooManyRequests, "too many"))) }
            try await world.a.create("f", bytes(3_000_000, 7), synced: true)
            try await world.sleep(.seconds(8))
            #expect(try await world.b.read("f") == bytes(3_000_000, 7))
        }
    }

    /// A proxy blocks the stream of news: then the device polls the feed, and everything else works.
    @Test func changesArriveWithoutAStreamOfNews() async throws {
        try await run { world in
            for _ in 0..<1000 { world.b.link.script(.news, .fail(UbiquityError(.notPermitted, "refused"))) }
            try await world.sleep(.seconds(60))
            try await world.a.create("f", [1])
            for _ in 0..<60 where try world.b.row("f") == nil { try await world.sleep(.seconds(1)) }
            #expect(try await world.b.read("f") == [1])
            try await world.b.edit("f") { _ in [2] }
            try await world.sleep(.seconds(5))
            #expect(try await world.a.read("f") == [2])
            #expect(world.b.link.counts.calls[.news, default: 0] < 100)
        }
    }
}
