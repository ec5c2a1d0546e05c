import FoundationEssentials
import GRDB

/// One change of a transaction, as SQLite's session extension writes it.
struct RecordedChange {
    enum Kind { case insert, update, delete }

    var table: String
    var kind: Kind
    /// Values before and after, by the column's position; nil where the change does not say.
    var old: [DatabaseValue?]
    var new: [DatabaseValue?]
}

/// Reads a changeset of SQLite's session extension. The format is the one that sqlite3session.c documents.
struct ChangesetReader {
    private var reader: ByteReader
    private var table = ""
    private var columns = 0

    init(_ bytes: [UInt8]) { reader = ByteReader(bytes) }

    mutating func next() throws -> RecordedChange? {
        while !reader.isAtEnd {
            let kind = try reader.byte()
            if kind == UInt8(ascii: "T") {
                columns = try varint()
                _ = try reader.raw(columns)
                var name: [UInt8] = []
                while case let byte = try reader.byte(), byte != 0 { name.append(byte) }
                table = String(decoding: name, as: UTF8.self)
                continue
            }
            _ = try reader.byte()
            let nothing = [DatabaseValue?](repeating: nil, count: columns)
            switch kind {
            case 18: return RecordedChange(table: table, kind: .insert, old: nothing, new: try record())
            case 9: return RecordedChange(table: table, kind: .delete, old: try record(), new: nothing)
            case 23: return RecordedChange(table: table, kind: .update, old: try record(), new: try record())
            default: throw ByteReader.damage("a change has the unknown kind \(kind)")
            }
        }
        return nil
    }

    private mutating func record() throws -> [DatabaseValue?] {
        var values: [DatabaseValue?] = []
        values.reserveCapacity(columns)
        for _ in 0..<columns { values.append(try value()) }
        return values
    }

    private mutating func value() throws -> DatabaseValue? {
        switch try reader.byte() {
        case 0: return nil
        case 1: return Int64(bitPattern: try reader.fixed()).databaseValue
        case 2: return Double(bitPattern: try reader.fixed()).databaseValue
        case 3: return String(decoding: try reader.raw(varint()), as: UTF8.self).databaseValue
        case 4: return Data(try reader.raw(varint())).databaseValue
        case 5: return .null
        case let tag: throw ByteReader.damage("a value has the unknown kind \(tag)")
        }
    }

    /// SQLite's variable-length number: the first byte has the highest bits.
    private mutating func varint() throws -> Int {
        var result = 0
        for _ in 0..<5 {
            let byte = try reader.byte()
            result = result << 7 | Int(byte & 0x7F)
            if byte < 0x80 { return result }
        }
        throw ByteReader.damage("a number is too long")
    }
}
