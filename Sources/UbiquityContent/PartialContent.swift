package import UbiquityCore
package import UbiquitySystem

/// The backing file of a content that is being downloaded: as large as the content, sparse where chunks are missing.
///
/// Which chunks are here is known in memory only; after a restart `verifyExisting` finds it out from the bytes, so
/// that nothing on the disk can claim what is not there. Any thread may call anything. A chunk is marked only when
/// its bytes are verified and written, so whoever sees it present can read it from the file.
package final class PartialContent: Sendable {
    /// Bytes that a download leaves free on the disk: the index must be able to grow and to say what happened, and
    /// other programs should meet a full disk no sooner than a download does.
    package static let reservedSpace: Int64 = 32 * 1024 * 1024

    package let id: ContentID
    /// Open for reading and writing; readers of present ranges may read from it directly.
    package let file: FileDescriptor
    package let layout: ChunkLayout
    private let reserve: Int64
    private let presence: Lock<PresenceMap>

    /// Gives the file its size. What it holds already is not looked at: see `verifyExisting`.
    /// - Parameter size: of the version, which the chunks must add up to.
    /// - Throws: `.damaged` if they do not, or what the disk says.
    package init(
        id: ContentID, file: FileDescriptor, manifest: Manifest, size: Int64,
        reserve: Int64 = PartialContent.reservedSpace
    ) throws(UbiquityError) {
        let layout = try ChunkLayout(manifest)
        guard layout.size == size else {
            throw UbiquityError(.damaged, "the manifest has \(layout.size) bytes, the version \(size)")
        }
        try describing("make room for the content", at: "content \(id)") { () throws(Errno) in
            if try file.status().size != size { try file.truncate(to: size) }
        }
        self.id = id
        self.file = file
        self.layout = layout
        self.reserve = reserve
        presence = Lock(PresenceMap(count: manifest.count))
    }

    package var manifest: Manifest { layout.manifest }
    /// Size of the whole content in bytes.
    package var size: Int64 { layout.size }
    package var isComplete: Bool { presence.withLock { $0.isComplete } }
    /// Bytes that are here.
    package var presentBytes: Int64 { presence.withLock { $0.presentBytes } }
    /// 0 … 1; an empty content is wholly here.
    package var fractionPresent: Double { size == 0 ? 1 : Double(presentBytes) / Double(size) }

    /// Whether all bytes of the range that the content has are here.
    package func contains(_ range: Range<Int64>) -> Bool {
        let indexes = layout.indexes(covering: range)
        return presence.withLock { $0.isComplete || $0.containsAll(indexes) }
    }

    package func contains(chunk index: Int) -> Bool { presence.withLock { $0.contains(index) } }

    /// The missing chunks that have bytes in `range`, in order, at most `limit`.
    package func missing(in range: Range<Int64>, limit: Int = .max) -> [Int] {
        let indexes = layout.indexes(covering: range)
        return presence.withLock { $0.missing(in: indexes, limit: limit) }
    }

    /// The missing chunks from `index` on, in order, at most `limit`.
    package func missing(from index: Int, limit: Int = .max) -> [Int] {
        guard index < layout.count else { return [] }
        return presence.withLock { $0.missing(in: max(0, index)..<layout.count, limit: limit) }
    }

    /// Writes a chunk that has arrived, after verifying it.
    /// - Returns: false if it was here already.
    /// - Throws: `.damaged` if these bytes are not that chunk, `.noSpace`; what is here is then the same as before.
    @discardableResult
    package func store(_ index: Int, _ bytes: UnsafeRawBufferPointer) throws(UbiquityError) -> Bool {
        guard manifest.indices.contains(index) else {
            throw UbiquityError(.invalid, "the content has no chunk \(index)", at: "content \(id)")
        }
        guard !contains(chunk: index) else { return false }
        let chunk = manifest[index]
        guard ChunkNaming.matches(bytes, chunk) else {
            throw UbiquityError(.damaged, "the bytes of chunk \(chunk.id) are not what its name says")
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

    /// Takes a chunk from another file on this device, if that is what stands there.
    /// - Returns: false if the bytes are others.
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

    /// For what has found the chunk's bytes in the file.
    @discardableResult
    func mark(_ index: Int) -> Bool { presence.withLock { $0.insert(index, length: manifest[index].length) } }

    /// Gives a complete content the version's time, as the last step.
    /// - Throws: `.invalid` if a chunk is missing.
    package func finish(modifiedAt: Timestamp) throws(UbiquityError) {
        guard isComplete else {
            throw UbiquityError(.invalid, "a content is not finished before all of it is here", at: "content \(id)")
        }
        try FaultPoints.check("content.finish")
        try describing("set the content's time", at: "content \(id)") { () throws(Errno) in
            try file.setTimes(accessed: nil, modified: modifiedAt)
        }
    }
}
