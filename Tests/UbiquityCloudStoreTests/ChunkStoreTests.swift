import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The promises of every chunk store.
enum ChunkStoreKind: String, CaseIterable, Sendable {
    case memory, files
}

@Suite struct ChunkStoreTests {
    private let folder: ChunkFolder
    private let clock = ManualTime(sleep: .isCancelled)

    init() throws { folder = try ChunkFolder() }

    private func open(_ kind: ChunkStoreKind) throws -> any ChunkStore {
        switch kind {
        case .memory: MemoryChunkStore(timekeeper: clock)
        case .files: try folder.open(clock)
        }
    }

    private func stored(_ store: any ChunkStore) throws -> [ChunkID: Timestamp] {
        var found = [ChunkID: Timestamp]()
        try store.forEachStored { id, storedAt in found[id] = storedAt }
        return found
    }

    @Test(arguments: ChunkStoreKind.allCases)
    func storedChunkIsReadableBeforeAndAfterSync(_ kind: ChunkStoreKind) throws {
        let store = try open(kind)
        let chunks = ChunkSamples.chunks(0..<40) + [ChunkSamples.chunk(99, length: Limits.maximumChunkLength)]
        try store.store(chunks)
        for _ in 0..<2 {
            for chunk in chunks {
                #expect(try store.read(chunk.id) == chunk.bytes)
                #expect(try store.length(of: chunk.id) == chunk.bytes.count)
            }
            #expect(try store.missing(of: chunks.map(\.id)).isEmpty)
            try store.makeDurable(chunks.map(\.id))
        }
    }

    @Test(arguments: ChunkStoreKind.allCases)
    func missingChunksKeepTheRequestedOrder(_ kind: ChunkStoreKind) throws {
        let store = try open(kind)
        let chunks = ChunkSamples.chunks(0..<12)
        try store.store(chunks.filter { $0.bytes[0] % 3 == 0 } + [chunks[5]])
        let here = Set(try stored(store).keys)
        let absent = chunks.map(\.id).filter { !here.contains($0) }
        #expect(!absent.isEmpty)
        #expect(try store.missing(of: chunks.map(\.id)) == absent)
        #expect(try store.missing(of: chunks.map(\.id).reversed()) == absent.reversed())
        #expect(try store.length(of: absent[0]) == nil)
        #expect(chunkFailure { _ = try store.read(absent[0]) } == .notFound)
        #expect(throws: MissingChunks(ids: absent)) { try store.makeDurable(chunks.map(\.id)) }
    }

    @Test(arguments: ChunkStoreKind.allCases)
    func chunkThatDoesNotMatchItsIdIsRefused(_ kind: ChunkStoreKind) throws {
        let store = try open(kind)
        let good = ChunkSamples.chunk(1), other = ChunkSamples.chunk(2)
        let wrong = [
            Chunk(id: other.id, bytes: good.bytes), ChunkSamples.chunk(3, length: 0),
            ChunkSamples.chunk(4, length: Limits.maximumChunkLength + 1),
        ]
        for chunk in wrong {
            #expect(chunkFailure { try store.store([good, chunk]) } == .invalid)
            #expect(try store.missing(of: [good.id, chunk.id]) == [chunk.id])
        }
    }

    @Test(arguments: ChunkStoreKind.allCases)
    func storingAgainChangesNothingButTheTime(_ kind: ChunkStoreKind) throws {
        let store = try open(kind)
        let chunk = ChunkSamples.chunk(1)
        try store.store([chunk, chunk])
        let first = clock.now()
        #expect(try stored(store) == [chunk.id: first])
        try store.makeDurable([chunk.id, chunk.id])
        #expect(try stored(store) == [chunk.id: first])
        clock.advance(seconds: 10)
        try store.store([chunk])
        #expect(try stored(store) == [chunk.id: clock.now()])
        #expect(try store.read(chunk.id) == chunk.bytes)
    }

    @Test(arguments: ChunkStoreKind.allCases, [true, false])
    func collectionSparesTouchedChunks(_ kind: ChunkStoreKind, _ isDurable: Bool) throws {
        let store = try open(kind)
        let chunks = ChunkSamples.chunks(0..<3), ids = chunks.map(\.id)
        try store.store(chunks)
        if isDurable { try store.makeDurable(ids) }
        clock.advance(seconds: 5)
        let limit = clock.now()
        try store.touch([ids[1], ChunkSamples.chunk(9).id])
        #expect(try stored(store)[ids[1]] == limit)
        try store.remove(ids, storedBefore: limit)
        #expect(try store.missing(of: ids) == [ids[0], ids[2]])
        #expect(try Array(stored(store).keys) == [ids[1]])
        try store.remove(ids)
        #expect(try store.missing(of: ids) == ids)
        try store.store([chunks[0]])
        #expect(try store.missing(of: ids) == [ids[1], ids[2]])
    }

    @Test(arguments: ChunkStoreKind.allCases)
    func manyCallersAtOnce(_ kind: ChunkStoreKind) async throws {
        let store = try open(kind)
        let chunks = ChunkSamples.chunks(0..<60), ids = chunks.map(\.id)
        let pool = BlockingPool(name: "chunk-test", threads: 4)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<8 {
                group.addTask {
                    try await pool.run {
                        // Each caller in another order, some one by one, some together.
                        let mine = caller % 2 == 0 ? chunks : chunks.reversed()
                        for start in stride(from: 0, to: mine.count, by: caller + 1) {
                            let part = Array(mine[start..<min(start + caller + 1, mine.count)])
                            try store.store(part)
                            try store.makeDurable(part.map(\.id))
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try store.missing(of: ids).isEmpty)
        #expect(try Set(stored(store).keys) == Set(ids))
        for chunk in chunks { #expect(try store.read(chunk.id) == chunk.bytes) }
        if kind == .files {
            #expect(try folder.incoming().isEmpty)
            #expect(try folder.durable() == ids.map(\.description).sorted())
        }
    }
}
