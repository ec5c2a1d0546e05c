import UbiquityContent
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Writes the items of an import into the new container.
///
/// An item is made under a temporary name that stays on this device, and then renamed. So no half of a file is
/// uploaded.
struct ImportFiles: Sendable {
    let service: any CloudService
    let pool: BlockingPool

    /// Where an item is made; the name is excluded from sync.
    static func temporaryPath(of item: RemoteItem, beside target: String) -> String {
        Path.join(Path.parent(of: target), ".import-\(item.id).nosync")
    }

    /// Makes an item and, for a folder, everything in it.
    func make(_ item: RemoteItem, at path: String, _ tree: ImportTree) async throws {
        switch item.kind {
        case .directory:
            try await pool.run {
                try describing("make the folder", at: path) { () throws(Errno) in
                    do throws(Errno) { try FileSystem.makeDirectory(path, mode: 0o755) } catch .EEXIST {}
                }
            }
            for child in tree.items(in: item.id) {
                try await make(child, at: Path.join(path, child.name.description), tree)
            }
            try await pool.run { try finish(item, path) }
        case .symlink:
            try await pool.run {
                try describing("make the link", at: path) { () throws(Errno) in
                    do throws(Errno) { try FileSystem.unlink(path) } catch .ENOENT {}
                    try FileSystem.symlink(item.linkTarget, at: path)
                }
            }
        case .hardLink:
            // The import may leave out the link's file, so the link becomes a file of its own.
            guard let file = ItemID(bytes: item.linkTarget).flatMap({ tree.items[$0] }) else {
                throw UbiquityError(.notFound, "the file of this link is missing", at: tree.path(of: item))
            }
            try await make(file, at: path, tree)
        default:
            try await write(item, path, tree)
        }
    }

    private func write(_ item: RemoteItem, _ path: String, _ tree: ImportTree) async throws {
        guard let content = item.content, content.isAvailable else {
            throw UbiquityError(
                .notUploadedYet, "its content is on another device only", at: tree.path(of: item),
                remedy: "mount the account before on that device until it is uploaded, and import again")
        }
        let manifest: Manifest
        if let known = content.manifest { manifest = known } else {
            manifest = try await service.manifest(of: content.version)
        }
        let file = try await pool.run {
            try describing("make the file", at: path) { () throws(Errno) in
                try FileDescriptor.open(path, [.writeOnly, .create, .truncate], mode: 0o644)
            }
        }
        var offset: Int64 = 0, wanted: [ChunkReference] = []
        for chunk in manifest {
            wanted.append(chunk)
            guard wanted.reduce(0, { $0 + $1.length }) >= Self.batchBytes else { continue }
            offset = try await fetch(wanted, into: file, at: offset, path)
            wanted = []
        }
        offset = try await fetch(wanted, into: file, at: offset, path)
        guard offset == content.size else {
            throw UbiquityError(.damaged, "its chunks do not have its size", at: tree.path(of: item))
        }
        try await pool.run {
            try finish(item, path)
            try describing("write the file", at: path) { () throws(Errno) in try file.sync() }
        }
    }

    /// Bytes of chunks in one request.
    private static let batchBytes = Limits.maximumChunkBytesPerRequest / 4

    /// Writes chunks one after the other.
    /// - Returns: the offset after the last one.
    private func fetch(
        _ chunks: [ChunkReference], into file: FileDescriptor, at offset: Int64, _ path: String
    ) async throws -> Int64 {
        guard !chunks.isEmpty else { return offset }
        var places = [ChunkID: [Int64]](), end = offset, ids = [ChunkID]()
        for chunk in chunks {
            if places[chunk.id] == nil { ids.append(chunk.id) }
            places[chunk.id, default: []].append(end)
            end += Int64(chunk.length)
        }
        let all = places, lengths = Dictionary(chunks.map { ($0.id, $0.length) }) { first, _ in first }
        try await service.fetchChunks(ids) { chunk in
            guard chunk.bytes.count == lengths[chunk.id], ChunkNaming.name(of: chunk.bytes) == chunk.id else {
                throw UbiquityError(.damaged, "the cloud sent a damaged chunk", at: path)
            }
            try await pool.run {
                for place in all[chunk.id] ?? [] {
                    try describing("write the file", at: path) { () throws(Errno) in
                        try file.write(chunk.bytes, at: place)
                    }
                }
            }
        }
        return end
    }

    /// Sets mode, attributes and time.
    private func finish(_ item: RemoteItem, _ path: String) throws {
        try describing("set the attributes", at: path) { () throws(Errno) in
            for attribute in item.xattrs {
                // The new place may refuse an attribute, for example a capability. The document matters more.
                do throws(Errno) { try FileSystem.setXattr(path, attribute.name, attribute.value) } catch .EPERM {
                } catch .EOPNOTSUPP {}
            }
            try FileSystem.setPermissions(path, item.mode & 0o777 | 0o600)
            try FileSystem.setTimes(path, accessed: nil, modified: item.modifiedAt)
        }
    }
}
