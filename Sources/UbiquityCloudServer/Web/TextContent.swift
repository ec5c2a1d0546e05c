internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// Reads short contents of files as text.
enum TextContent {
    /// Nil if the content is not UTF-8, or has bytes that no text has.
    static func read(_ version: VersionID, _ service: any CloudService) async throws -> String? {
        let bytes = try await bytes(version, service)
        guard !bytes.contains(0) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    /// The whole content. Throws `.tooLarge` beyond `WebLimits.shownText`.
    private static func bytes(_ version: VersionID, _ service: any CloudService) async throws -> [UInt8] {
        let manifest = try await service.manifest(of: version)
        guard manifest.reduce(0, { $0 + Int64($1.length) }) <= WebLimits.shownText else {
            throw UbiquityError(.tooLarge, "the content is too long to be shown")
        }
        guard !manifest.isEmpty else { return [] }
        let collected = Box([UInt8]())
        try await service.fetchChunks(manifest.map(\.id)) { chunk in
            collected.lock.withLock { $0 += chunk.bytes }
        }
        return collected.lock.withLock { $0 }
    }
}
