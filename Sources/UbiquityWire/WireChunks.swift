internal import FoundationEssentials
package import UbiquityCore

/// Ids of chunks that are queried, wanted or missing. At most `Limits.maximumChunksPerRequest`.
package struct ChunkIDs: Hashable, Sendable {
    package var ids: [ChunkID]
    package init(_ ids: [ChunkID]) { self.ids = ids }

    package static func checkCount(_ count: Int) throws(UbiquityError) {
        guard count <= Limits.maximumChunksPerRequest else {
            throw .malformed("\(count) chunks in one request; \(Limits.maximumChunksPerRequest) are possible")
        }
    }
}

extension ChunkIDs: MessageConvertible {
    static var shape: MessageShape { .chunkIDs }

    init(message: PBChunkIDs) throws(UbiquityError) {
        try Self.checkCount(message.ids.count)
        self.init(try decodeChunkIDs(message.ids))
    }

    func message() -> PBChunkIDs {
        var result = PBChunkIDs()
        result.ids = ids.map(\.data)
        return result
    }
}

func decodeChunkIDs(_ ids: [Data]) throws(UbiquityError) -> [ChunkID] {
    var result = [ChunkID]()
    result.reserveCapacity(ids.count)
    for id in ids { result.append(try ChunkID(wire: id)) }
    return result
}

/// The answer to a query for the chunks of a version.
package struct VersionManifest: Hashable, Sendable {
    package var chunks: Manifest
    package init(_ chunks: Manifest) { self.chunks = chunks }
}

extension VersionManifest: MessageConvertible {
    static var shape: MessageShape { .manifest }

    init(protobuf bytes: [UInt8]) throws(UbiquityError) {
        var chunks = Manifest(), failure: UbiquityError?
        bytes.withUnsafeBytes { raw in
            do throws(UbiquityError) {
                chunks = try ManifestExtractor(raw, 0..<raw.count, path: [1]).manifest
            } catch { failure = error }
        }
        if let failure { throw failure }
        self.init(chunks)
    }

    init(message: PBManifest) throws(UbiquityError) { self.init(try message.manifest()) }
    func message() -> PBManifest { PBManifest(chunks) }
}
