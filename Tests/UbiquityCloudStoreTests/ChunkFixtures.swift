import Crypto
import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// A chunk store's folder.
final class ChunkFolder: Sendable {
    private let folder: TemporaryFolder
    var path: String { folder.path }

    init() throws { folder = try TemporaryFolder() }

    func open(_ clock: any Timekeeper = ManualTime(sleep: .isCancelled)) throws -> FileChunkStore {
        try FileChunkStore(directory: path, timekeeper: clock)
    }

    /// The durable file of a chunk.
    func file(of id: ChunkID) -> String { "\(path)/chunks/\(id.description.prefix(2))/\(id)" }

    /// The names in `incoming/`.
    func incoming() throws -> [String] { try FileSystem.entries(of: Path.join(path, "incoming")).map(\.text) }

    /// Every file below `chunks/`.
    func durable() throws -> [String] {
        let chunks = Path.join(path, "chunks")
        return try FileSystem.entries(of: chunks).flatMap { folder in
            try FileSystem.entries(of: Path.join(chunks, folder.text)).map(\.text)
        }.sorted()
    }
}

enum ChunkSamples {
    /// A chunk with bytes from its seed.
    static func chunk(_ seed: UInt64, length: Int = 3000) -> Chunk {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1
        let bytes = (0..<length).map { _ -> UInt8 in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 56)
        }
        return Chunk(id: ChunkID(digest: Array(SHA256.hash(data: bytes))), bytes: bytes)
    }

    static func chunks(_ seeds: Range<UInt64>, length: Int = 3000) -> [Chunk] {
        seeds.map { chunk($0, length: length) }
    }
}

/// The code of the failure of `body`, if it is a `UbiquityError`.
func chunkFailure(_ body: () throws -> Void) -> UbiquityError.Code? {
    do {
        try body()
        return nil
    } catch {
        if let missing = error as? MissingChunks { return missing.ids.isEmpty ? nil : .missingChunks }
        return (error as? UbiquityError)?.code
    }
}
