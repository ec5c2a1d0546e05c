import Synchronization
import Testing
import UbiquityCore
import UbiquitySystem

@testable import UbiquityContent
import UbiquityTestSupport

@Suite struct ContentScannerTests {
    let folder: TemporaryFolder
    init() throws { folder = try TemporaryFolder() }

    private func file(_ bytes: [UInt8]) throws -> FileDescriptor {
        let file = try FileDescriptor.open(folder("file"), [.readWrite, .create, .truncate])
        try file.write(bytes, at: 0)
        return file
    }

    @Test(arguments: [0, 1, 65_536, 262_144, 1_000_003])
    func findsTheChunksOfAQuietFile(_ count: Int) throws {
        let bytes = Samples.bytes(count, seed: 9)
        let file = try file(bytes)
        guard case .stable(let content) = try ContentScanner(clock: ManualTime.later).scan(file) else {
            Issue.record("not stable")
            return
        }
        #expect(content.manifest == Chunker.manifest(of: bytes))
        #expect(content.size == Int64(count))
        #expect(content.modifiedAt == (try file.status().modifiedAt))
    }

    /// A nearly empty disk image of many gigabytes takes a moment.
    @Test(arguments: [0, 1, 100_000, 1 << 20]) func holesAreSkipped(_ before: Int) throws {
        let (begin, end) = (Samples.bytes(before, seed: 3), Samples.bytes(70_000, seed: 4))
        func outcome(hole: Int, after: [UInt8]) throws -> (ScanOutcome, asked: Int) {
            let file = try file(begin)
            try file.write(after, at: Int64(before + hole))
            if after.isEmpty { try file.truncate(to: Int64(before + hole)) }
            var asked = 0
            return (try ContentScanner(clock: ManualTime.later).scan(file) { asked += 1; return false }, asked)
        }
        for after in [end, []] {
            for hole in [5_000_000, 10 << 20] {
                guard case .stable(let content) = try outcome(hole: hole, after: after).0 else {
                    Issue.record("not stable")
                    continue
                }
                #expect(content.manifest == Chunker.manifest(of: begin + [UInt8](repeating: 0, count: hole) + after))
            }
            let large = try outcome(hole: 100 << 30, after: after)
            guard case .stable(let content) = large.0 else {
                Issue.record("not stable")
                continue
            }
            #expect(content.manifest.reduce(0) { $0 + $1.length } == before + 100 << 30 + after.count)
            #expect(large.asked < 100)
        }
    }

    /// Changes of the file during the scan. The scanner checks for cancellation between its reads.
    enum Disturbance: CaseIterable { case write, append, cut, touch, writeAndRestoreTime }

    @Test(arguments: Disturbance.allCases)
    func seesAChangeDuringTheScan(_ disturbance: Disturbance) throws {
        let file = try file(Samples.bytes(600_000, seed: 10))
        let old = Timestamp(seconds: 1_000_000, nanoseconds: 0)
        try file.setTimes(accessed: nil, modified: old)
        var reads = 0
        let outcome = try ContentScanner(clock: ManualTime.later).scan(file) {
            reads += 1
            if reads == 2 { try? disturb(file, disturbance, old) }
            return false
        }
        #expect(reads >= 2)
        #expect(outcome == .changedMeanwhile)
    }

    private func disturb(_ file: FileDescriptor, _ disturbance: Disturbance, _ time: Timestamp) throws {
        // The change must fall into a later clock tick than the preparation.
        let before = try file.status().changedAt
        repeat {
            switch disturbance {
            case .write: try file.write([1], at: 0)
            case .append: try file.write([1], at: 600_000)
            case .cut: try file.truncate(to: 10)
            case .touch: try file.setTimes(accessed: nil, modified: .zero)
            case .writeAndRestoreTime:
                try file.write([1], at: 0)
                try file.setTimes(accessed: nil, modified: time)
            }
        } while try file.status().changedAt == before
    }

    @Test func refusesMoreChunksThanCanTravel() throws {
        let file = try file(Samples.bytes(3_000_000, seed: 11))
        let count = Chunker.manifest(of: Samples.bytes(3_000_000, seed: 11)).count
        _ = try ContentScanner(clock: ManualTime.later, maximumChunks: count).scan(file)
        let failure = #expect(throws: UbiquityError.self) {
            _ = try ContentScanner(clock: ManualTime.later, maximumChunks: count / 2).scan(file)
        }
        #expect(failure?.code == .tooLarge)
    }

    @Test func freshChangeIsRacy() throws {
        let file = try file([1, 2, 3])
        let changed = try file.status().changedAt
        func outcome(afterMilliseconds milliseconds: Double) throws -> ScanOutcome {
            let clock = ManualTime(changed.advanced(bySeconds: milliseconds / 1000))
            return try ContentScanner(clock: clock).scan(file)
        }
        let content = ScannedContent(
            manifest: Chunker.manifest(of: [1, 2, 3]), size: 3, modifiedAt: try file.status().modifiedAt,
            changedAt: changed)
        #expect(try outcome(afterMilliseconds: 0) == .racy(content))
        #expect(try outcome(afterMilliseconds: 9.9) == .racy(content))
        #expect(try outcome(afterMilliseconds: 10.1) == .stable(content))
        // The clock was set back: a change now gets another time.
        #expect(try outcome(afterMilliseconds: -1000) == .stable(content))
    }

    @Test func racyNeverOverflows() {
        #expect(
            !ContentScanner.isRacy(changedAt: Timestamp(nanoseconds: .min), scannedAt: Timestamp(nanoseconds: .max)))
    }

    @Test func stopsWhenCancelled() throws {
        let file = try file(Samples.bytes(600_000, seed: 11))
        var asked = 0
        let error = #expect(throws: UbiquityError.self) {
            try ContentScanner(clock: ManualTime.later).scan(file) {
                asked += 1
                return asked == 2
            }
        }
        #expect(error?.code == .cancelled)
        #expect(asked == 2)
    }
}
