import CUbiquitySession
import GRDB
import UbiquityCore

/// Records the changes of one transaction with SQLite's session extension.
struct ChangeSession: ~Copyable {
    private let session: OpaquePointer

    init(_ db: Database, _ tables: [SyncedTable]) throws {
        guard let connection = db.sqliteConnection else { throw UbiquityError(.invalid, "the database is closed") }
        var session: OpaquePointer?
        let code = CUbiquitySession_start(connection, &session)
        guard code == 0, let session else { throw Self.failure(code, db) }
        for table in tables {
            let code = CUbiquitySession_attach(session, table.name)
            guard code == 0 else {
                CUbiquitySession_end(session)
                throw Self.failure(code, db)
            }
        }
        self.session = session
    }

    deinit { CUbiquitySession_end(session) }

    /// Returns the changeset; nil if nothing has changed.
    ///
    /// - Throws: `DatabaseError`, also if the transaction changed the schema.
    func changeset(_ db: Database) throws -> [UInt8]? {
        guard CUbiquitySession_isEmpty(session) == 0 else { return nil }
        var length: Int32 = 0, bytes: UnsafeMutableRawPointer?
        let code = CUbiquitySession_changeset(session, &length, &bytes)
        defer { CUbiquitySession_free(bytes) }
        guard code == 0 else { throw Self.failure(code, db) }
        guard let bytes, length > 0 else { return nil }
        return Array(UnsafeRawBufferPointer(start: bytes, count: Int(length)))
    }

    private static func failure(_ code: Int32, _ db: Database) -> any Error {
        DatabaseError(
            resultCode: ResultCode(rawValue: code),
            message: "cannot record the changes of a transaction; change tables only in migrations")
    }
}
