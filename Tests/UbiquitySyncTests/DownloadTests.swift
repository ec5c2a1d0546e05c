import Testing
internal import UbiquityContent
import UbiquityCore
import UbiquitySystem

@testable import UbiquitySync

/// The download of one content: the order of its readers, and its end.
@Suite struct DownloadTests {
    /// 32 chunks of 64 KiB, each of other bytes.
    private static let chunks = (0..<32).map { [UInt8](repeating: UInt8($0), count: Limits.minimumChunkLength) }
    private static let length = Int64(Limits.minimumChunkLength)
    private static let perFirstFetch = SyncLimits.firstFetchBytes / Limits.minimumChunkLength

    private let content: PartialContent

    init() throws {
        let manifest = Self.chunks.map { ChunkReference(id: ChunkNaming.name(of: $0), length: $0.count) }
        // An unnamed file: nothing of it remains.
        let path = "/tmp/ubiquity-download-\(UInt64.random(in: 0...UInt64.max))"
        let file = try FileDescriptor.open(path, [.readWrite, .create])
        try FileSystem.unlink(path)
        content = try PartialContent(
            id: ContentID(7), file: file, manifest: manifest, size: Int64(manifest.count) * Self.length)
    }

    private func download(isReplacement: Bool = false) -> Download {
        Download(key: ItemKey(3), version: VersionID(high: 0, low: 1), content: content, isReplacement: isReplacement)
    }

    private func bytes(_ chunks: Range<Int>) -> Range<Int64> {
        Int64(chunks.lowerBound) * Self.length..<Int64(chunks.upperBound) * Self.length
    }

    private func arrive(_ batch: [Int]) throws {
        for index in batch { try content.store(index, Self.chunks[index]) }
    }

    /// A reader that waits in a task of its own, returned once its wait is registered.
    private func reader(_ download: Download, _ range: Range<Int>) async -> Task<Void, any Error> {
        let (noted, note) = AsyncStream.makeStream(of: Void.self)
        let task = Task { try await download.wait(for: bytes(range)) { note.yield() } }
        for await _ in noted { break }
        // The wait is registered before the continuation exists; the first claim for it shows that it does.
        return task
    }

    /// The first claim that is not empty: the reader's task may need a moment.
    private func nextBatch(_ download: Download) async -> [Int] {
        while true {
            let batch = download.claimBatch()
            if !batch.isEmpty { return batch }
            await Task.yield()
        }
    }

    /// As when the connection is refused before the reader waits.
    @Test(.timeLimit(.minutes(1))) func failureAtTheStartOfAWaitEndsIt() async throws {
        let download = download()
        await #expect(throws: UbiquityError.self) {
            try await download.wait(for: bytes(0..<1)) { download.fail(UbiquityError(.offline, "refused")) }
        }
    }

    /// A lane without work does not count as a working one.
    @Test func readerAtEndOfLastLaneStartsAnother() async throws {
        let download = download()
        for _ in 0..<2 { #expect(download.enterLane(limit: 2)) }
        #expect(!download.enterLane(limit: 2))
        #expect(download.claimBatchOrLeave() == nil)
        #expect(download.enterLane(limit: 2) && !download.enterLane(limit: 2))
    }

    // MARK: Claiming

    @Test func unwantedDownloadFetchesNothing() {
        let download = download()
        #expect(!download.isWanted)
        #expect(download.claimBatch().isEmpty)
    }

    @Test func everyChunkIsClaimedOnceFromTheBeginning() throws {
        let download = download()
        download.setBackground()
        var seen = [Int]()
        while case let batch = download.claimBatch(), !batch.isEmpty { seen += batch }
        #expect(seen == Array(0..<32))
        #expect(download.claimBatch().isEmpty)
        download.release([5, 6])
        #expect(download.claimBatch() == [5, 6])
    }

    @Test func claimIsLimitedToOneFetch() throws {
        let download = download()
        download.addOpener()
        #expect(download.claimBatch().count == min(32, SyncLimits.followingFetchBytes / Limits.minimumChunkLength))
    }

    @Test func presentChunksAreNotFetched() throws {
        let download = download()
        try arrive(Array(0..<10) + Array(12..<32))
        download.setBackground()
        #expect(download.claimBatch() == [10, 11])
    }

    @Test func readerGetsFewChunksFirstThenMore() async throws {
        let download = download()
        let first = await reader(download, 20..<21)
        let batch = await nextBatch(download)
        #expect(batch == Array(20..<20 + Self.perFirstFetch))
        try arrive(batch)
        download.release(batch)
        download.wakeReaders()
        try await first.value
        // It continues at its position: twice as much. The remaining chunks follow, and then those from the beginning.
        let second = await reader(download, 24..<25)
        let following = await nextBatch(download)
        #expect(following == Array(24..<min(32, 24 + 2 * Self.perFirstFetch)))
        try arrive(following)
        download.wakeReaders()
        try await second.value
        download.addOpener()
        #expect(download.claimBatch() == Array(0..<20))
    }

    // MARK: Waiting

    @Test func readerWaitsOnlyForItsChunks() async throws {
        let download = download()
        let reader = await reader(download, 3..<5)
        let batch = await nextBatch(download)
        #expect(batch.first == 3)
        try arrive([3, 4])
        download.wakeReaders()
        try await reader.value
        #expect(!content.isComplete)
    }

    @Test func cancelledReaderIsForgotten() async throws {
        let download = download()
        let reader = await reader(download, 0..<1)
        _ = await nextBatch(download)
        reader.cancel()
        await #expect(throws: CancellationError.self) { try await reader.value }
        #expect(!download.isWanted)
    }

    @Test func failureEndsAllReaders() async throws {
        let download = download()
        let readers = [await reader(download, 0..<1), await reader(download, 9..<10)]
        let claimed = await nextBatch(download)
        // Both waits exist when the second one's chunks are claimed too.
        #expect(await nextBatch(download).first != claimed.first)
        download.fail(UbiquityError(.damaged, "for the test"))
        for reader in readers {
            let failure = await #expect(throws: UbiquityError.self) { try await reader.value }
            #expect(failure?.code == .damaged)
        }
        #expect(!download.isWanted)
    }

    @Test func readerOfPresentRangeDoesNotWait() async throws {
        let download = download()
        try arrive([0])
        try await download.wait(for: bytes(0..<1)) {}
    }

    // MARK: The end

    @Test func completeContentIsFinishedOnce() throws {
        let download = download()
        #expect(!download.claimFinish())
        try arrive(Array(0..<32))
        #expect(download.claimFinish())
        #expect(!download.claimFinish())
        #expect(!download.enterLane(limit: 1))
    }

    @Test func lanesAreLimited() {
        let download = download()
        #expect(download.enterLane(limit: 2))
        #expect(download.enterLane(limit: 2))
        #expect(!download.enterLane(limit: 2))
        download.leaveLane()
        #expect(download.enterLane(limit: 2))
        #expect(download.hasLanes)
    }

    @Test func downloadWithoutSpaceOrRecordIsUseless() {
        #expect(!download().isForNothing)
        #expect(download(isReplacement: true).isForNothing)
        let full = download()
        full.recordNoSpace()
        #expect(full.isForNothing)
    }
}
