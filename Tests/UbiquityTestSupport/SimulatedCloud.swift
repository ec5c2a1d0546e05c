package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The cloud of a simulated world: the one that decides as the real one does, with everything in memory.
package final class SimulatedCloud: CloudService {
    package init(world: VirtualWorld) { }
    private var cloud: any CloudService { get throws { throw UbiquityError(.invalid, "") } }

    package func open() async throws -> ContainerDescription { try await cloud.open() }
    package func changes(after revision: Revision, limit: Int) async throws -> ChangePage {
        try await cloud.changes(after: revision, limit: limit)
    }
    package func commit(_ request: CommitRequest) async throws -> CommitResponse { try await cloud.commit(request) }
    package func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] { try await cloud.missingChunks(of: ids) }
    package func upload(_ chunks: [Chunk]) async throws { try await cloud.upload(chunks) }
    package func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        try await cloud.fetchChunks(ids, receive: receive)
    }
    package func manifest(of version: VersionID) async throws -> Manifest { try await cloud.manifest(of: version) }
    package func news() async throws -> AsyncThrowingStream<Revision, any Error> { try await cloud.news() }
    package func usage() async throws -> CloudUsage { try await cloud.usage() }

    // MARK: Looking in

    package func revision() async throws -> Revision { try await cloud.open().revision }

    /// Every live item.
    package func items() async throws -> [RemoteItem] {
        var items = [RemoteItem](), revision = Revision.zero
        while true {
            let page = try await cloud.changes(after: revision, limit: Limits.maximumItemsPerPage)
            items += page.items.filter { !$0.isDeleted }
            guard page.hasMore else { return items }
            revision = page.revision
        }
    }

    /// The tree as it stands here.
    package func picture() async throws -> TreePicture {
        let items = try await items()
        let byID = Dictionary(items.map { ($0.id, $0) }) { first, _ in first }
        var picture = TreePicture()
        for item in items where item.id != .root {
            guard let path = path(of: item, byID) else {
                throw UbiquityError(.damaged, "the cloud's item is below nothing: \(item.summary)")
            }
            guard picture.nodes[path] == nil else { throw UbiquityError(.damaged, "two items at the cloud's \(path)") }
            picture.nodes[path] = TreePicture.Node(
                kind: item.kind, mode: item.mode, modifiedAt: item.modifiedAt, xattrs: item.xattrs,
                linkTarget: item.linkTarget, size: item.content?.size ?? 0,
                content: try await fingerprint(of: item.content))
        }
        return picture
    }

    private func path(of item: RemoteItem, _ byID: [ItemID: RemoteItem]) -> String? {
        var names = ["\(item.name)"], parent = item.parent
        while parent != .root {
            guard let folder = byID[parent], names.count < Limits.maximumDepth else { return nil }
            names.append("\(folder.name)")
            parent = folder.parent
        }
        return names.reversed().joined(separator: "/")
    }

    private func fingerprint(of content: RemoteContent?) async throws -> ChunkID? {
        guard let content else { return nil }
        return try await fingerprint(cloud.manifest(of: content.version))
    }

    private func fingerprint(_ manifest: Manifest) async throws -> ChunkID {
        let bytes = Lock<[UInt8]>([])
        for chunk in manifest {
            try await cloud.fetchChunks([chunk.id]) { chunk in bytes.withLock { $0 += chunk.bytes } }
        }
        return SimulatedDevice.fingerprint(bytes.withLock { $0 })
    }

    /// Every content that is kept: current, older, in conflict or in the trash.
    package func contents() async throws -> Set<ChunkID> {
        []
    }
}
