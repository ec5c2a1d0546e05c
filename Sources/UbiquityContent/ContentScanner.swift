package import UbiquityCore
package import UbiquitySystem

/// One consistent state of a file: its chunks, and its status before and after the read.
package struct ScannedContent: Hashable, Sendable {
    package let manifest: Manifest
    /// Size in bytes: the sum of the chunks.
    package let size: Int64
    package let modifiedAt: Timestamp
    package let changedAt: Timestamp
}

package enum ScanOutcome: Hashable, Sendable {
    /// The file did not change, and any write in between would have shown.
    case stable(ScannedContent)
    /// The file did not change, but its last change was so recent that another write in the same clock tick would not
    /// show. Scan again after `ContentScanner.granularity`.
    case racy(ScannedContent)
    /// A program wrote to the file during the read.
    case changedMeanwhile
}

/// Reads a file into chunks, and reports whether the result is one consistent state of the file.
package struct ContentScanner: Sendable {
    /// The granularity of file times: file systems use the kernel's tick, at the slowest (HZ=100) 10 ms. Two writes in
    /// one tick have the same time.
    package static let granularity: Duration = .milliseconds(10)

    /// Bytes read at a time. They are still in the second-level cache when they are cut and hashed.
    static let readSize = 256 * 1024

    private let clock: any Timekeeper
    private let maximumChunks: Int

    package init(clock: any Timekeeper, maximumChunks: Int = Limits.maximumChunksPerContent) {
        self.clock = clock
        self.maximumChunks = maximumChunks
    }

    /// Reads the file from its beginning, and may move its position. Writes through a mapping change the times only
    /// when the kernel notices them. So scan a file mapped for writing again after its close.
    /// - Parameter isCancelled: called between reads.
    /// - Throws: `.cancelled`, `.tooLarge`, or the error of the disk.
    package func scan(
        _ file: FileDescriptor, isCancelled: () -> Bool = { false }
    ) throws(UbiquityError) -> ScanOutcome {
        let start = clock.now()
        let before = try status(of: file)
        guard before.size <= Limits.maximumFileSize else {
            throw UbiquityError(.tooLarge, "a file may have at most \(Limits.maximumFileSize) bytes")
        }
        guard let manifest = try read(file, before.size, isCancelled) else { return .changedMeanwhile }
        let after = try status(of: file)
        guard after.size == before.size, after.modifiedAt == before.modifiedAt, after.changedAt == before.changedAt
        else { return .changedMeanwhile }
        let content = ScannedContent(
            manifest: manifest, size: before.size, modifiedAt: before.modifiedAt, changedAt: before.changedAt)
        return Self.isRacy(changedAt: before.changedAt, scannedAt: start) ? .racy(content) : .stable(content)
    }

    /// Whether a write right after the start of the scan could have got the time that the file already had.
    package static func isRacy(changedAt: Timestamp, scannedAt: Timestamp) -> Bool {
        let (difference, overflow) = scannedAt.nanoseconds.subtractingReportingOverflow(changedAt.nanoseconds)
        return !overflow && .nanoseconds(difference.magnitude) < granularity
    }

    private func status(of file: FileDescriptor) throws(UbiquityError) -> FileStatus {
        try describing("read the content's status") { () throws(Errno) in try file.status() }
    }

    /// The chunks of `size` bytes, or nil if the file is shorter.
    private func read(
        _ file: FileDescriptor, _ size: Int64, _ isCancelled: () -> Bool
    ) throws(UbiquityError) -> Manifest? {
        try BufferPool.withBuffer { buffer throws(UbiquityError) in
            var builder = ManifestBuilder()
            var position: Int64 = 0
            while position < size {
                guard !isCancelled() else { throw UbiquityError(.cancelled, "the scan was cancelled") }
                if let since = builder.lengthSinceZeros {
                    let chunks = try zeroChunks(in: file, from: position - Int64(since), size)
                    if chunks > 0 {
                        position += Int64(chunks * Limits.maximumChunkLength - since)
                        guard builder.count + chunks <= maximumChunks else { throw tooManyChunks(after: position) }
                        builder.addZeros(chunks: chunks)
                        continue
                    }
                }
                let wanted = Int(min(Int64(Self.readSize), size - position))
                let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
                let count = try describing("read the content") { () throws(Errno) in
                    try file.read(into: part, at: position)
                }
                guard count == wanted else { return nil }
                builder.add(UnsafeRawBufferPointer(part))
                position += Int64(count)
                guard builder.count <= maximumChunks else { throw tooManyChunks(after: position) }
            }
            return builder.finish()
        }
    }

    /// The number of longest chunks in the hole that begins at `start`, or 0 if there is no hole.
    private func zeroChunks(
        in file: FileDescriptor, from start: Int64, _ size: Int64
    ) throws(UbiquityError) -> Int {
        let end = try describing("look for holes in the content") { () throws(Errno) in
            // Some file systems do not report holes.
            do throws(Errno) { return try file.nextData(from: start) ?? size } catch .EINVAL { return start }
        }
        return Int(max(0, min(end, size) - start)) / Limits.maximumChunkLength
    }

    private func tooManyChunks(after position: Int64) -> UbiquityError {
        UbiquityError(
            .tooLarge, "the first \(position) bytes of the file have \(maximumChunks) chunks, the limit of a content",
            remedy: "split it into several files")
    }
}
