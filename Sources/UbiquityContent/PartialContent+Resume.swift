package import UbiquityCore
internal import UbiquitySystem

extension PartialContent {
    /// Hashes the file's data after a restart and marks the intact chunks.
    ///
    /// Only chunks with data are read, so a barely begun download of a large file costs little. A chunk without data is
    /// missing, except in a long run of zeros, which is stored as a hole.
    /// - Parameter isCancelled: called before each chunk. Chunks found so far remain marked.
    /// - Throws: `.cancelled`, or the error of the disk.
    package func verifyExisting(isCancelled: () -> Bool = { false }) throws(UbiquityError) {
        let ranges = try describing("look for the content's data", at: "content \(id)") { () throws(Errno) in
            try file.dataRanges(in: 0..<size)
        }
        markHoles(apartFrom: ranges)
        try BufferPool.withBuffer { buffer throws(UbiquityError) in
            var next = 0
            for range in ranges {
                let indexes = layout.indexes(covering: range)
                for index in indexes where index >= next && !contains(chunk: index) {
                    guard !isCancelled() else { throw UbiquityError(.cancelled, "the check was cancelled") }
                    if try isWhole(index, buffer) { mark(index) }
                }
                next = max(next, indexes.upperBound)
            }
        }
    }

    private func isWhole(_ index: Int, _ buffer: UnsafeMutableRawBufferPointer) throws(UbiquityError) -> Bool {
        let chunk = manifest[index]
        let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<chunk.length])
        let count = try describing("read the content", at: "content \(id)") { () throws(Errno) in
            try file.read(into: part, at: layout.range(of: index).lowerBound)
        }
        return count == chunk.length && ChunkNaming.matches(UnsafeRawBufferPointer(part), chunk)
    }

    /// Marks the zero chunks between the ranges with data.
    private func markHoles(apartFrom ranges: [Range<Int64>]) {
        let starts = [0] + ranges.map(\.upperBound)
        let ends = ranges.map(\.lowerBound) + [size]
        for (start, end) in zip(starts, ends) where start < end {
            for index in layout.indexes(covering: start..<end) where manifest[index] == ZeroBytes.longestChunk {
                let range = layout.range(of: index)
                if range.lowerBound >= start, range.upperBound <= end { mark(index) }
            }
        }
    }
}
