package import UbiquityCore

/// The positions of a content's chunks in its file.
package struct ChunkLayout: Sendable {
    package let manifest: Manifest
    /// The start of each chunk, then the size of the content: 8 bytes per chunk.
    private let offsets: [Int64]

    /// - Throws: `.damaged` if a chunk has an impossible length, or if the sum exceeds the maximum file size.
    package init(_ manifest: Manifest) throws(UbiquityError) {
        var offsets = [Int64]()
        offsets.reserveCapacity(manifest.count + 1)
        var position: Int64 = 0
        for chunk in manifest {
            guard (1...Limits.maximumChunkLength).contains(chunk.length) else {
                throw UbiquityError(.damaged, "the manifest has a chunk of \(chunk.length) bytes")
            }
            offsets.append(position)
            position += Int64(chunk.length)
        }
        guard position <= Limits.maximumFileSize else {
            throw UbiquityError(.damaged, "the manifest has \(position) bytes, more than a file may have")
        }
        offsets.append(position)
        self.manifest = manifest
        self.offsets = offsets
    }

    package var count: Int { manifest.count }

    /// Size of the content in bytes.
    package var size: Int64 { offsets[manifest.count] }

    /// The bytes of a chunk. `index` must be less than `count`.
    package func range(of index: Int) -> Range<Int64> { offsets[index]..<offsets[index + 1] }

    /// The chunks that overlap `range`. Parts outside the content are ignored.
    package func indexes(covering range: Range<Int64>) -> Range<Int> {
        let start = max(0, range.lowerBound)
        let end = min(size, range.upperBound)
        guard start < end else { return 0..<0 }
        return index(at: start)..<(index(at: end - 1) + 1)
    }

    /// The chunk that contains the byte at `offset`, which must be within the content. A binary search: 25 steps for 8
    /// TiB.
    private func index(at offset: Int64) -> Int {
        var low = 0
        var high = manifest.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if offsets[middle] <= offset { low = middle } else { high = middle }
        }
        return low
    }
}
