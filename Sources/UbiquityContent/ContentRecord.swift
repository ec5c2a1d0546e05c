internal import UbiquityCore
internal import UbiquitySystem

/// A record of `ContentJournal`. Numbers are little-endian, 8 bytes each.
///
/// - Checksum.
/// - The half's random beginning, equal in all its records.
/// - Number, boot, content.
/// - The file's times of modification and of any change, in nanoseconds.
/// - The length, or the mark of an invalidation, and then the bytes.
struct ContentRecord: Hashable {
    static let headerSize = 8 * 8
    private static let forgotten = UInt64.max
    /// The content of a void record.
    static let noContent = ContentID(0)

    var beginning: UInt64
    var number: UInt64
    var boot: UInt64
    var content: ContentID
    /// The modification time of the content's file.
    var modifiedAt: Timestamp
    /// The change time of the content's file before it was read. Programs cannot set it.
    var changedAt: Timestamp
    /// Nil if the record invalidates earlier records of the content.
    var bytes: [UInt8]?

    var encoded: [UInt8] {
        var result = [UInt8]()
        result.reserveCapacity(Self.headerSize + (bytes?.count ?? 0))
        let words = [
            0, beginning, number, boot, UInt64(bitPattern: content.rawValue),
            UInt64(bitPattern: modifiedAt.nanoseconds), UInt64(bitPattern: changedAt.nanoseconds),
            bytes.map { UInt64($0.count) } ?? Self.forgotten,
        ]
        for word in words { Self.append(word, to: &result) }
        if let bytes { result += bytes }
        let sum = Self.checksum(result[...])
        withUnsafeBytes(of: sum.littleEndian) { result.replaceSubrange(0..<8, with: $0) }
        return result
    }

    /// The records of a half, from its beginning to the first that is incomplete or older.
    static func all(in half: [UInt8]) -> [ContentRecord] {
        var result = [ContentRecord](), position = 0
        while let record = read(half, at: position), record.beginning == result.first?.beginning ?? record.beginning {
            result.append(record)
            position += headerSize + (record.bytes?.count ?? 0)
        }
        return result
    }

    private static func read(_ half: [UInt8], at position: Int) -> ContentRecord? {
        guard half.count - position >= headerSize else { return nil }
        let words = (0..<8).map { word(half, at: position + $0 * 8) }
        let isForgotten = words[7] == forgotten
        guard isForgotten || words[7] <= UInt64(half.count - position - headerSize) else { return nil }
        let start = position + headerSize, end = start + (isForgotten ? 0 : Int(words[7]))
        guard checksum(half[position..<end]) == words[0] else { return nil }
        return ContentRecord(
            beginning: words[1], number: words[2], boot: words[3], content: ContentID(Int64(bitPattern: words[4])),
            modifiedAt: Timestamp(nanoseconds: Int64(bitPattern: words[5])),
            changedAt: Timestamp(nanoseconds: Int64(bitPattern: words[6])),
            bytes: isForgotten ? nil : Array(half[start..<end]))
    }

    /// The checksum of all but the checksum field. Unwritten space, all zero, is no valid record.
    private static func checksum(_ record: ArraySlice<UInt8>) -> UInt64 {
        var sum = RecordChecksum(seed: 0)
        sum.add(record.dropFirst(8))
        return sum.value
    }

    private static func append(_ word: UInt64, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: word.littleEndian) { bytes.append(contentsOf: $0) }
    }

    private static func word(_ bytes: [UInt8], at position: Int) -> UInt64 {
        bytes.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: position, as: UInt64.self)) }
    }
}
