internal import UbiquityCore

/// A statement that changes the database, with its bound values.
struct JournalStatement {
    var sql: String
    var values: [SQLValue]
}

/// The encoding of a transaction's statements in the journal. Numbers are little-endian.
///
/// Count (2 bytes), then for each statement its text, the count of its values (1 byte) and the values, each preceded by
/// its kind. A text is written in full at its first use in a batch; later uses give its number.
enum JournalCoding {
    /// Marks a text that follows in full.
    private static let newText = UInt16.max
    /// The count field allows no more. A transaction with more statements bypasses the journal.
    static let maximumStatements = Int(UInt16.max)

    private enum Kind: UInt8 { case null, int, bytes, text, id }

    static func encode(_ statements: [JournalStatement], texts: inout [String: UInt16]) -> [UInt8] {
        var bytes = [UInt8]()
        bytes.reserveCapacity(512)
        append(UInt16(statements.count), to: &bytes)
        for statement in statements {
            appendText(statement.sql, &texts, to: &bytes)
            bytes.append(UInt8(statement.values.count))
            for value in statement.values { append(value, to: &bytes) }
        }
        return bytes
    }

    private static func appendText(_ text: String, _ texts: inout [String: UInt16], to bytes: inout [UInt8]) {
        if let known = texts[text] { return append(known, to: &bytes) }
        texts[text] = UInt16(texts.count)
        append(newText, to: &bytes)
        append(blob: text.utf8, to: &bytes)
    }

    private static func append(_ value: SQLValue, to bytes: inout [UInt8]) {
        switch value {
        case .null: bytes.append(Kind.null.rawValue)
        case .int(let number):
            bytes.append(Kind.int.rawValue)
            append(number, to: &bytes)
        case .bytes(let blob):
            bytes.append(Kind.bytes.rawValue)
            append(blob: blob, to: &bytes)
        case .text(let text):
            bytes.append(Kind.text.rawValue)
            append(blob: text.utf8, to: &bytes)
        case .id(let high, let low):
            bytes.append(Kind.id.rawValue)
            append(high, to: &bytes)
            append(low, to: &bytes)
        }
    }

    private static func append(blob: some Collection<UInt8>, to bytes: inout [UInt8]) {
        append(UInt32(blob.count), to: &bytes)
        bytes.append(contentsOf: blob)
    }

    static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// Returns nil if the bytes are incomplete.
    static func decode(_ bytes: ArraySlice<UInt8>, texts: inout [String]) -> [JournalStatement]? {
        var rest = bytes
        guard let count: UInt16 = number(&rest) else { return nil }
        var statements = [JournalStatement]()
        for _ in 0..<count {
            guard let sql = text(&rest, &texts), let valueCount: UInt8 = number(&rest) else { return nil }
            var values = [SQLValue]()
            for _ in 0..<valueCount {
                guard let value = value(&rest) else { return nil }
                values.append(value)
            }
            statements.append(JournalStatement(sql: sql, values: values))
        }
        return rest.isEmpty ? statements : nil
    }

    private static func text(_ rest: inout ArraySlice<UInt8>, _ texts: inout [String]) -> String? {
        guard let which: UInt16 = number(&rest) else { return nil }
        guard which == newText else { return Int(which) < texts.count ? texts[Int(which)] : nil }
        guard let bytes = blob(&rest) else { return nil }
        texts.append(String(decoding: bytes, as: UTF8.self))
        return texts.last
    }

    private static func value(_ rest: inout ArraySlice<UInt8>) -> SQLValue? {
        guard let kind = number(&rest).flatMap(Kind.init(rawValue:)) else { return nil }
        switch kind {
        case .null: return .null
        case .int: return number(&rest).map { SQLValue.int($0) }
        case .bytes: return blob(&rest).map { .bytes(Array($0)) }
        case .text: return blob(&rest).map { .text(String(decoding: $0, as: UTF8.self)) }
        case .id:
            guard let high: UInt64 = number(&rest), let low: UInt64 = number(&rest) else { return nil }
            return .id(high, low)
        }
    }

    private static func blob(_ rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let count: UInt32 = number(&rest), rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return rest.prefix(Int(count))
    }

    static func number<N: FixedWidthInteger>(_ rest: inout ArraySlice<UInt8>) -> N? {
        let width = N.bitWidth / 8
        guard rest.count >= width else { return nil }
        defer { rest = rest.dropFirst(width) }
        return rest.withUnsafeBytes { N(littleEndian: $0.loadUnaligned(as: N.self)) }
    }
}
