import GRDB
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// Counts all that an account has stored: contents, uploads that no commit names yet, earlier versions, the trash,
/// names and attributes.
///
/// The quota bounds the current documents only. Triggers keep the sum of the account's rows (`StoredRows`), the chunk
/// store that of its files (`StoredSize`). Each writer holds its bytes in `StoredSize` before it stores them and until
/// they are in one of the sums, so that writers side by side are all counted.
struct StorageCap {
    let cloud: Cloud
    let account: Int64

    /// Stores chunks as files.
    func store(_ chunks: [Chunk]) throws {
        guard !chunks.isEmpty else { return }
        let store = try cloud.chunks(of: account)
        let bytes = chunks.reduce(0) { $0 + Int64($1.bytes.count) }
        store.size.hold(bytes)
        defer { store.size.release(bytes) }
        try store.store(chunks)
    }

    /// Writes rows.
    func write<T>(_ body: (Database) throws -> T) throws -> T {
        let store = try cloud.existingChunks(of: account)
        // Here, because other accounts wait for the transaction: the first call counts files.
        _ = try store?.storedBytes()
        var growth: Int64 = 0
        defer { store?.size.release(growth) }
        return try cloud.write { db in
            let before = try rows(db)
            let result = try body(db)
            let added = try rows(db) - before
            guard added > 0 else { return result }
            growth = added
            store?.size.hold(growth)
            return result
        }
    }

    /// Bytes of the account's rows.
    func rows(_ db: Database) throws -> Int64 {
        guard let row = try account("stored", db) else { throw UbiquityError(.signedOut, "the account was deleted") }
        return row.number(0) ?? 0
    }

    private func account(_ column: String, _ db: Database) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(sql: "SELECT \(column) FROM accounts WHERE number = ?"), arguments: [account])
    }
}

extension Cloud {
    /// Bytes that an account has stored in all. Throws `.notFound`.
    package func storedBytes(of name: String) async throws -> Int64 {
        try await pool.run { [self] in
            let account = try account(named: name)
            let rows = try read { try StorageCap(cloud: self, account: account).rows($0) }
            return try rows + (existingChunks(of: account)?.storedBytes() ?? 0)
        }
    }
}
