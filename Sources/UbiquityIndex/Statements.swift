import GRDB
import GRDBSQLite
internal import UbiquityCore

// Values pass between SQLite and rows directly. GRDB's argument lists and fetched rows box and copy each value, which
// cost more than SQLite itself (measured). GRDB keeps the prepared statements and the connections.

/// A value bound to a parameter of a statement.
enum SQLValue: ExpressibleByNilLiteral, ExpressibleByIntegerLiteral {
    case null
    case int(Int64)
    case bytes([UInt8])
    case text(String)
    /// 16 bytes.
    case id(UInt64, UInt64)

    init(nilLiteral: ()) { self = .null }
    init(integerLiteral value: Int64) { self = .int(value) }
    init(_ value: Int64?) { self = value.map(SQLValue.int) ?? .null }
    /// An empty array is stored as null.
    init(nonEmpty bytes: [UInt8]) { self = bytes.isEmpty ? .null : .bytes(bytes) }
    init<Kind>(_ id: Identifier<Kind>?) { self = id.map { .id($0.high, $0.low) } ?? .null }
    init(_ key: ItemKey) { self = .int(key.rawValue) }
    init(_ name: ItemName) { self = .bytes(name.bytes) }

    /// SQLite copies the bytes before the call returns.
    private static var copied: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }

    fileprivate func bind(to statement: OpaquePointer, at place: Int32) -> Int32 {
        switch self {
        case .null: return sqlite3_bind_null(statement, place)
        case .int(let value): return sqlite3_bind_int64(statement, place, value)
        case .text(let text): return sqlite3_bind_text(statement, place, text, -1, Self.copied)
        case .id(let high, let low):
            return withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) {
                sqlite3_bind_blob(statement, place, $0.baseAddress, 16, Self.copied)
            }
        case .bytes(let bytes):
            guard !bytes.isEmpty else { return sqlite3_bind_zeroblob(statement, place, 0) }
            return bytes.withUnsafeBytes {
                sqlite3_bind_blob(statement, place, $0.baseAddress, Int32($0.count), Self.copied)
            }
        }
    }
}

/// A statement's current row. Valid only inside the call that passed it.
struct SQLRow {
    fileprivate let statement: OpaquePointer

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }
    /// 0 for null.
    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }
    func optionalInt(_ column: Int32) -> Int64? { isNull(column) ? nil : int(column) }
    func time(_ column: Int32) -> Timestamp { Timestamp(nanoseconds: int(column)) }

    func bytes(_ column: Int32) -> [UInt8]? {
        guard !isNull(column) else { return nil }
        guard let start = sqlite3_column_blob(statement, column) else { return [] }
        return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column))))
    }

    func text(_ column: Int32) -> String? { sqlite3_column_text(statement, column).map { String(cString: $0) } }

    /// Nil if the value does not have 16 bytes.
    func id<Kind>(_ column: Int32) -> Identifier<Kind>? {
        guard let start = sqlite3_column_blob(statement, column), sqlite3_column_bytes(statement, column) == 16 else {
            return nil
        }
        return Identifier(
            high: UInt64(bigEndian: start.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: start.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }
}

extension Database {
    /// Runs a statement to its end and passes each row to `body`.
    func run(_ sql: String, _ values: [SQLValue], _ body: (SQLRow) throws -> Void = { _ in }) throws {
        try step(sql, values) { row in
            try body(row)
            return true
        }
    }

    /// Returns the result of `body` for the first row; nil if there is none.
    func first<R>(_ sql: String, _ values: [SQLValue], _ body: (SQLRow) throws -> R) throws -> R? {
        var result: R?
        try step(sql, values) { row in
            result = try body(row)
            return false
        }
        return result
    }

    /// - Parameter body: Returns whether to continue.
    private func step(_ sql: String, _ values: [SQLValue], _ body: (SQLRow) throws -> Bool) throws {
        let prepared = try cachedStatement(sql: sql)
        let statement = prepared.sqliteStatement
        defer {
            withExtendedLifetime(prepared) {
                sqlite3_reset(statement)
                sqlite3_clear_bindings(statement)
            }
        }
        for (index, value) in values.enumerated() {
            let code = value.bind(to: statement, at: Int32(index + 1))
            guard code == SQLITE_OK else { throw failure(code, sql) }
        }
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_DONE { return }
            guard code == SQLITE_ROW else { throw failure(code, sql) }
            guard try body(SQLRow(statement: statement)) else { return }
        }
    }

    private func failure(_ code: Int32, _ sql: String) -> DatabaseError {
        DatabaseError(resultCode: ResultCode(rawValue: code), message: lastErrorMessage, sql: sql)
    }
}
