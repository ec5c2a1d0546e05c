import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
import UbiquityWire

@testable import UbiquitySync

/// The size of one upload request.
@Suite struct UploadPaceTests {
    @Test func fastLineGetsLargeRequestsSoon() {
        var pace = UploadPace()
        for _ in 0..<2 { pace.took(.milliseconds(10), for: pace.bytes) }
        #expect(pace.bytes == 4 << 20 && pace.lanes == 3)
        // The last piece of a file, and many small ones, change nothing.
        for _ in 0..<10 { pace.took(.milliseconds(10), for: 1000) }
        #expect(pace.bytes == 4 << 20)
    }

    /// Bytes a second, and whether a request that takes longer than a minute fails.
    @Test(arguments: [16_000, 50_000, 125_000, 1_000_000])
    func slowLineGetsSmallRequests(rate: Int) {
        var pace = UploadPace()
        for round in 0..<20 {
            let bytes = max(pace.bytes, 300_000)
            let duration = Duration.seconds(Double(bytes * pace.lanes) / Double(rate))
            if duration > .seconds(60) {
                pace.failed(begunAt: .seconds(round), now: .seconds(round))
            } else {
                pace.took(duration, for: bytes)
            }
        }
        // A single chunk may exceed the pace.
        #expect(Double(max(pace.bytes, 300_000) * pace.lanes) / Double(rate) < 20)
        #expect(rate > 1_000_000 / 4 || pace.lanes == 1)
    }

    /// A proxy refuses sizes that the line itself could carry.
    @Test func refusedSizeIsNotTriedAgain() {
        var pace = UploadPace()
        for _ in 0..<5 { pace.took(.milliseconds(10), for: pace.bytes) }
        let refused = pace.bytes
        pace.refused(refused)
        #expect(pace.bytes == refused / 2)
        for _ in 0..<5 { pace.took(.milliseconds(10), for: pace.bytes) }
        #expect(pace.bytes == refused / 2)
    }

    @Test func paceRecoversAfterAnOutage() {
        var pace = UploadPace()
        for round in 0..<20 {
            pace.failed(begunAt: .seconds(round), now: .seconds(round))
            // The same outage.
            let before = pace
            pace.failed(begunAt: .seconds(round - 1), now: .seconds(round))
            #expect(pace == before)
        }
        #expect(pace.bytes == 64 << 10 && pace.lanes == 1)
        // A chunk is larger than that.
        for _ in 0..<10 { pace.took(.milliseconds(20), for: max(pace.bytes, 256 << 10)) }
        #expect(pace.bytes == 4 << 20)
    }

    @Test func zeroDurationsDoNotTrap() {
        var pace = UploadPace()
        pace.took(.zero, for: 0)
        pace.took(.seconds(-1), for: 1)
        pace.took(.seconds(1e9), for: 1)
        #expect(pace.bytes == 64 << 10)
    }
}

/// The frequency of uploads of one file.
@Suite struct UploadRestTests: WorldTests {
    static let seed: UInt64 = 17

    /// It is throttled by so much, and does not wait for the next full scan.
    @Test func frequentlySavedLargeFileIsThrottledAndUploaded() async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(200_000))
            try await world.settle()
            for _ in 0..<14 {
                let start = world.world.uptime
                let bytes = world.random.bytes(200_000)
                try await world.a.edit("f") { _ in bytes }
                for _ in 0..<200 where try !world.a.live("f").dirty.isEmpty {
                    try await world.world.sleep(for: .milliseconds(50))
                }
                #expect(try world.a.live("f").dirty.isEmpty && world.world.uptime - start <= .seconds(10))
            }
            try await world.check()
        }
    }

    /// Only for an awaited item, and only once.
    @Test func waitEndsThrottleOfItem() async throws {
        try await run { world in
            for name in ["f", "g"] { try await world.a.create(name, [0]) }
            try await world.settle()
            let keys = try ["f", "g"].map { try world.a.live($0).key }
            let engine = try world.a.engine
            for _ in 0..<SyncLimits.burst * 4 { for key in keys { engine.throttle.noteCommit(of: key) } }
            for name in ["f", "g"] { try await world.a.edit(name) { _ in [1] } }
            try await world.sleep(.seconds(2))
            #expect(try ["f", "g"].allSatisfy { try !world.a.live($0).dirty.isEmpty })
            #expect(Set(engine.status.resting) == Set(keys))
            engine.endRests(of: keys.prefix(1))
            try await world.sleep(.seconds(2))
            #expect(try world.a.live("f").dirty.isEmpty && !world.a.live("g").dirty.isEmpty)
            #expect(Set(engine.status.resting) == Set(keys))
            try await world.settle()
            try await world.check()
        }
    }

    /// A program saves several times a second: most states are replaced before their upload, and the status says why
    /// they wait. Small contents are sent in the commit, large ones before it.
    @Test(arguments: [1_000, 200_000]) func frequentlySavedFileIsThrottled(length: Int) async throws {
        try await run { world in
            try await world.a.create("f", Array(repeating: 0, count: length))
            try await world.settle()
            let saves = 30
            var rests = 0
            for number in 1...saves {
                try await world.a.edit("f") { _ in Array(repeating: UInt8(number), count: length) }
                // Longer than an unthrottled upload of a save.
                try await world.sleep(.milliseconds(200))
                if try world.a.engine.status.pendingUploads(limit: 10).contains(where: { $0.restsUntil != nil }) { rests += 1 }
            }
            let versions = try await world.cloud.versions(of: world.a.live("f").id)
            #expect(versions.count <= saves * 2 / 3)
            #expect(rests >= saves / 3)
            try await world.settle()
            #expect(try await world.b.read("f") == Array(repeating: UInt8(saves), count: length))
            try await world.check()
        }
    }
}
