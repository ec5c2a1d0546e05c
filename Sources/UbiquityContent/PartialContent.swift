package import UbiquityCore
package import UbiquitySystem

/// The backing file of a content during its download: as large as the content, sparse where chunks are missing.
///
/// The set of present chunks is kept in memory only. After a restart `verifyExisting` recomputes it from the bytes, so
/// nothing on the disk can claim a missing chunk. All methods are thread-safe. A chunk is marked only after its bytes
/// are verified and written, so a present chunk can be read from the file.
package final class PartialContent: Sendable {
    /// Bytes that a download leaves free on the disk. The index must be able to grow and to record errors, and a
    /// download should meet the full disk before other programs do.
    package static let reservedSpace: Int64 = 32 * 1024 * 1024

    package let id: ContentID
    /// Open for reading and writing. Readers of present ranges may read from it directly.
    package let file: FileDescriptor
    package let layout: ChunkLayout
    private let reserve: Int64
    private let presence: Lock<PresenceMap>

    /// Gives the file its size. It does not examine existing data, see `verifyExisting`.
    /// - Parameter size: the size of the version. The chunks must add up to it.
    /// - Throws: `.damaged` if they do not, or the error of the disk.
    package init(
        id: ContentID, file: FileDescriptor, manifest: Manifest, size: Int64,
        reserve: Int64 = PartialContent.reservedSpace
    ) throws(UbiquityError) {
        let layout = try ChunkLayout(manifest)
        guard layout.size == size else {
            throw UbiquityError(.damaged, "the manifest has \(layout.size) bytes, the version \(size)")
        }
        try describing("set the size of the content", at: "content \(id)") { () throws(Errno) in
            if try file.status().size != size { try file.truncate(to: size) }
        }
        self.id = id
        self.file = file
        self.layout = layout
        self.reserve = reserve
        presence = Lock(PresenceMap(count: manifest.count))
    }

    /// A complete file on this device that is not in the content store. Its chunks have no names: it is only read.
    package convenience init(id: ContentID, whole file: FileDescriptor) throws(UbiquityError) {
        let size = try describing("examine the content", at: "content \(id)") { () throws(Errno) in
            try file.status().size
        }
        let length = Int64(Limits.maximumChunkLength)
        let manifest = stride(from: Int64(0), to: size, by: Int64.Stride(length)).map { start in
            ChunkReference(id: ChunkID(digest: []), length: Int(min(length, size - start)))
        }
        try self.init(id: id, file: file, manifest: manifest, size: size)
        for index in manifest.indices { mark(index) }
    }

    package var manifest: Manifest { layout.manifest }
    /// Size of the whole content in bytes.
    package var size: Int64 { layout.size }
    package var isComplete: Bool { presence.withLock { $0.isComplete } }
    /// Bytes that are present.
    package var presentBytes: Int64 { presence.withLock { $0.presentBytes } }
    /// From 0 to 1. An empty content is complete.
    package var fractionPresent: Double { size == 0 ? 1 : Double(presentBytes) / Double(size) }

    /// Whether all of the content's bytes in the range are present.
    package func contains(_ range: Range<Int64>) -> Bool {
        let indexes = layout.indexes(covering: range)
        return presence.withLock { $0.isComplete || $0.containsAll(indexes) }
    }

    package func contains(chunk index: Int) -> Bool { presence.withLock { $0.contains(index) } }

    /// The missing chunks that overlap `range`, in order, at most `limit`.
    package func missing(in range: Range<Int64>, limit: Int = .max) -> [Int] {
        let indexes = layout.indexes(covering: range)
        return presence.withLock { $0.missing(in: indexes, limit: limit) }
    }

    /// The missing chunks from `index` on, in order, at most `limit`.
    package func missing(from index: Int, limit: Int = .max) -> [Int] {
        guard index < layout.count else { return [] }
        return presence.withLock { $0.missing(in: max(0, index)..<layout.count, limit: limit) }
    }

    /// Verifies and writes a chunk.
    /// - Returns: false if it was present already.
    /// - Throws: `.damaged` if the bytes are not those of the chunk, `.noSpace`. The content is then unchanged.
    @discardableResult
    package func store(_ index: Int, _ bytes: UnsafeRawBufferPointer) throws(UbiquityError) -> Bool {
        guard manifest.indices.contains(index) else {
            throw UbiquityError(.invalid, "the content has no chunk \(index)", at: "content \(id)")
        }
        guard !contains(chunk: index) else { return false }
        let chunk = manifest[index]
        guard ChunkNaming.matches(bytes, chunk) else {
            throw UbiquityError(.damaged, "the bytes of chunk \(chunk.id) do not match its id")
        }
        return try storeVerified(index, bytes)
    }

    @discardableResult
    package func store(_ index: Int, _ bytes: [UInt8]) throws(UbiquityError) -> Bool {
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(UbiquityError) in try store(index, buffer) }
        }.get()
    }

    @discardableResult
    package func store(_ index: Int, _ bytes: ArraySlice<UInt8>) throws(UbiquityError) -> Bool {
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(UbiquityError) in try store(index, buffer) }
        }.get()
    }

    /// Copies a chunk from another file on this device, if the bytes there match.
    /// - Returns: false if they do not match.
    package func store(
        _ index: Int, from source: FileDescriptor, at offset: Int64
    ) throws(UbiquityError) -> Bool {
        guard manifest.indices.contains(index) else { return false }
        let chunk = manifest[index]
        return try BufferPool.withBuffer { buffer throws(UbiquityError) in
            let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<chunk.length])
            let count = try describing("read a chunk from another content") { () throws(Errno) in
                try source.read(into: part, at: offset)
            }
            guard count == chunk.length, ChunkNaming.matches(UnsafeRawBufferPointer(part), chunk) else { return false }
            _ = try storeVerified(index, UnsafeRawBufferPointer(part))
            return true
        }
    }

    private func storeVerified(_ index: Int, _ bytes: UnsafeRawBufferPointer) throws(UbiquityError) -> Bool {
        try FaultPoints.check("content.store")
        try describing("write a chunk", at: "content \(id)") { () throws(Errno) in
            let range = layout.range(of: index)
            if ZeroBytes.areAll(bytes) { return try ZeroBytes.write(range, to: file) }
            try checkSpace(for: bytes.count)
            try ZeroBytes.write(bytes, at: range.lowerBound, to: file)
        }
        FaultPoints.reach("content.stored")
        return mark(index)
    }

    private func checkSpace(for count: Int) throws(Errno) {
        guard try file.fileSystemStatus().availableBytes >= reserve + Int64(count) else { throw .ENOSPC }
    }

    /// Marks a chunk whose bytes were found in the file.
    @discardableResult
    func mark(_ index: Int) -> Bool { presence.withLock { $0.insert(index, length: manifest[index].length) } }

    /// Sets the version's time on a complete content, as the last step.
    /// - Throws: `.invalid` if a chunk is missing.
    package func finish(modifiedAt: Timestamp) throws(UbiquityError) {
        guard isComplete else {
            throw UbiquityError(.invalid, "a content with missing chunks cannot be finished", at: "content \(id)")
        }
        try FaultPoints.check("content.finish")
        try describing("set the content's time", at: "content \(id)") { () throws(Errno) in
            try file.setTimes(accessed: nil, modified: modifiedAt)
        }
    }
}
