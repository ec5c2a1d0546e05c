/// Writes a zip archive as a stream: without seeking, without temporary files, with its exact length known in advance.
///
/// Files are stored, not compressed: most documents are compressed already, and only a stored file has a known length.
/// A file's checksum follows its content. Archives and files beyond 4 GiB, and more than 65,535 entries, use Zip64.
/// Names are UTF-8. The caller writes the bytes that each call returns, in this order:
///
///     var zip = ZipWriter()
///     write(zip.begin(entry))           // for each entry
///     zip.add(bytes); write(bytes)      // for a file's content, in parts
///     write(try zip.end())
///     write(zip.finish())
package struct ZipWriter: Sendable {
    package static let longestPath = Int(UInt16.max)

    private static let largest32 = UInt64(UInt32.max)

    private struct Open {
        var entry: ZipEntry
        var offset: UInt64
        var checksum = CRC32()
        var size: UInt64 = 0
    }

    private var directory: [UInt8] = []
    private var entries: UInt64 = 0
    private var offset: UInt64 = 0
    private var open: Open?

    package init() {}

    /// Returns the length in bytes of an archive with these entries.
    package static func length(of entries: some Sequence<ZipEntry>) -> Int64 {
        var writer = ZipWriter()
        for entry in entries {
            _ = writer.begin(entry)
            if entry.ownContent == nil { writer.addUnread(entry.size) }
            _ = writer.close()
        }
        _ = writer.finish()
        return Int64(clamping: writer.offset)
    }

    /// Begins an entry. Returns its header, and the content of a symbolic link.
    package mutating func begin(_ entry: ZipEntry) -> [UInt8] {
        let content = entry.ownContent
        let checksum = content.map { CRC32(of: $0).value } ?? 0
        var bytes = LittleEndianBytes()
        bytes.add(UInt32(0x0403_4B50))
        addCommon(entry, checksum, size: content == nil ? 0 : entry.size, to: &bytes)
        let extra = Self.timeField(entry) + (Self.isLarge(entry) ? Self.largeField([0, 0]) : [])
        bytes.add(UInt16(entry.path.count))
        bytes.add(UInt16(extra.count))
        bytes.add(entry.path)
        bytes.add(extra)
        open = Open(entry: entry, offset: offset)
        if let content {
            bytes.add(content)
            open?.checksum.add(content[...])
            open?.size = UInt64(content.count)
        }
        offset += UInt64(bytes.bytes.count)
        return bytes.bytes
    }

    /// Counts a part of the current file's content.
    package mutating func add(_ content: ArraySlice<UInt8>) { content.withUnsafeBytes { add($0) } }

    package mutating func add(_ content: UnsafeRawBufferPointer) {
        open?.checksum.add(content)
        open?.size += UInt64(content.count)
        offset += UInt64(content.count)
    }

    /// Counts content whose bytes are not at hand. The entry's checksum is wrong then; its place is right.
    package mutating func addUnread(_ count: UInt64) {
        open?.size += count
        offset += count
    }

    /// Ends the entry. Returns the bytes after its content.
    /// - Throws: `ZipError.wrongSize` if the content's length differs from the entry's size. The archive is useless
    ///   then.
    package mutating func end() throws(ZipError) -> [UInt8] {
        if let open, open.size != open.entry.size {
            throw .wrongSize(expected: Int64(clamping: open.entry.size), actual: Int64(clamping: open.size))
        }
        return close()
    }

    private mutating func close() -> [UInt8] {
        guard let open else { return [] }
        self.open = nil
        entries += 1
        addToDirectory(open)
        guard open.entry.ownContent == nil else { return [] }
        var bytes = LittleEndianBytes()
        bytes.add(UInt32(0x0807_4B50))
        bytes.add(open.checksum.value)
        for _ in 0..<2 {
            if Self.isLarge(open.entry) { bytes.add(open.entry.size) } else { bytes.add(UInt32(open.entry.size)) }
        }
        offset += UInt64(bytes.bytes.count)
        return bytes.bytes
    }

    /// Returns the archive's directory, which is its last part.
    package mutating func finish() -> [UInt8] {
        let start = offset, size = UInt64(directory.count)
        var bytes = LittleEndianBytes(directory)
        if entries >= UInt64(UInt16.max) || start >= Self.largest32 || size >= Self.largest32 {
            bytes.add(UInt32(0x0606_4B50))
            bytes.add(UInt64(44))
            bytes.add(Self.creator)
            bytes.add(UInt16(45))
            bytes.add(UInt32(0))
            bytes.add(UInt32(0))
            for value in [entries, entries, size, start] { bytes.add(value) }
            bytes.add(UInt32(0x0706_4B50))
            bytes.add(UInt32(0))
            bytes.add(start + size)
            bytes.add(UInt32(1))
        }
        bytes.add(UInt32(0x0605_4B50))
        bytes.add(UInt32(0))
        for _ in 0..<2 { bytes.add(UInt16(clamping: entries)) }
        bytes.add(UInt32(clamping: size))
        bytes.add(UInt32(clamping: start))
        bytes.add(UInt16(0))
        offset += UInt64(bytes.bytes.count)
        directory = []
        return bytes.bytes
    }

    // MARK: Parts

    /// Made on Unix (3), so that the mode counts; version 4.5 of the format.
    private static let creator = UInt16(3 << 8 | 45)

    private static func isLarge(_ entry: ZipEntry) -> Bool { entry.size >= largest32 }

    private mutating func addToDirectory(_ open: Open) {
        let isFar = open.offset >= Self.largest32, isLarge = Self.isLarge(open.entry)
        var bytes = LittleEndianBytes()
        bytes.add(UInt32(0x0201_4B50))
        bytes.add(Self.creator)
        addCommon(open.entry, open.checksum.value, size: open.entry.size, isFar: isFar, to: &bytes)
        let large = (isLarge ? [open.entry.size, open.entry.size] : []) + (isFar ? [open.offset] : [])
        let extra = Self.timeField(open.entry) + (large.isEmpty ? [] : Self.largeField(large))
        bytes.add(UInt16(open.entry.path.count))
        bytes.add(UInt16(extra.count))
        // No comment, first disk, binary.
        for _ in 0..<3 { bytes.add(UInt16(0)) }
        bytes.add(open.entry.mode << 16 | (open.entry.kind == .folder ? 0x10 : 0))
        bytes.add(UInt32(clamping: open.offset))
        bytes.add(open.entry.path)
        bytes.add(extra)
        directory += bytes.bytes
    }

    /// The fields that an entry's header and its row in the directory share.
    private func addCommon(
        _ entry: ZipEntry, _ checksum: UInt32, size: UInt64, isFar: Bool = false, to bytes: inout LittleEndianBytes
    ) {
        bytes.add(UInt16(Self.isLarge(entry) || isFar ? 45 : 20))
        // UTF-8 names; the checksum and the sizes follow the content.
        bytes.add(UInt16(1 << 11 | (entry.ownContent == nil ? 1 << 3 : 0)))
        bytes.add(UInt16(0))
        let (date, time) = Self.dosTime(entry.modified)
        bytes.add(time)
        bytes.add(date)
        bytes.add(checksum)
        for _ in 0..<2 { bytes.add(Self.isLarge(entry) ? UInt32.max : UInt32(size)) }
    }

    private static func largeField(_ values: [UInt64]) -> [UInt8] {
        var bytes = LittleEndianBytes()
        bytes.add(UInt16(1))
        bytes.add(UInt16(values.count * 8))
        for value in values { bytes.add(value) }
        return bytes.bytes
    }

    /// The time in seconds, for programs of Unix.
    private static func timeField(_ entry: ZipEntry) -> [UInt8] {
        var bytes = LittleEndianBytes()
        bytes.add(UInt16(0x5455))
        bytes.add(UInt16(5))
        bytes.add([1])
        bytes.add(UInt32(bitPattern: Int32(clamping: entry.modified)))
        return bytes.bytes
    }

    /// Date and time as DOS has them, in UTC: from 1980 to 2107, in steps of two seconds.
    private static func dosTime(_ seconds: Int64) -> (date: UInt16, time: UInt16) {
        let first: Int64 = 315_532_800, last: Int64 = 4_354_819_198
        let seconds = min(max(seconds, first), last)
        let (year, month, day) = CivilTime.date(daysSince1970: seconds / 86_400)
        let second = seconds % 86_400
        return (
            UInt16((year - 1980) << 9 | month << 5 | day),
            UInt16((second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2))
        )
    }
}

/// Bytes of numbers, the lowest byte first.
private struct LittleEndianBytes {
    private(set) var bytes: [UInt8]

    init(_ bytes: [UInt8] = []) { self.bytes = bytes }

    mutating func add(_ more: [UInt8]) { bytes += more }
    mutating func add(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }
}
