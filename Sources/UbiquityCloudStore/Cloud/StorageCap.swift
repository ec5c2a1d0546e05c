import GRDB
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// Bounds all that an account has stored: contents, uploads that no commit names yet, earlier versions, the trash,
/// names and attributes.
///
/// The quota bounds the current documents only. Triggers keep the sum of the account's rows (`StoredRows`), the chunk
/// store that of its files (`StoredSize`). Each writer holds its bytes in `StoredSize` before it compares and until
/// they are in one of the sums, so that writers side by side do not pass the cap together.
struct StorageCap {
    let cloud: Cloud
    let account: Int64

    /// Stores chunks as files. Throws `.quotaExceeded` if those that are not here yet do not fit.
    func store(_ chunks: [Chunk]) throws {
        guard !chunks.isEmpty else { return }
        let store = try cloud.chunks(of: account)
        let bytes = chunks.reduce(0) { $0 + Int64($1.bytes.count) }
        store.size.hold(bytes)
        defer { store.size.release(bytes) }
        let total = try store.storedBytes()
        let (rows, room) = try cloud.read { db -> (Int64, Int64) in (try self.rows(db), try self.cap(db).forAll) }
        if total + rows > room {
            // A chunk that is here takes no more space, and sending it again repairs it.
            var new: Int64 = 0
            for chunk in chunks where try !store.holds(chunk.id) { new += Int64(chunk.bytes.count) }
            guard new == 0 || total - bytes + new + rows <= room else { throw try error() }
        }
        try store.store(chunks)
    }

    /// Writes rows. Throws `.quotaExceeded`, and changes nothing, if they make the account larger than it may be.
    /// - Parameter isRelief: Whether `body` only deletes items or decides about versions. Such commits add little, and
    ///   a part of the cap is kept for them.
    func write<T>(isRelief: Bool = false, _ body: (Database) throws -> T) throws -> T {
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
            let total = try (store?.storedBytes() ?? growth) + before, cap = try self.cap(db)
            guard total <= (isRelief ? cap.forRelief : cap.forAll) else { throw try error(db) }
            return result
        }
    }

    /// Bytes of the account's rows.
    func rows(_ db: Database) throws -> Int64 {
        guard let row = try account("stored", db) else { throw UbiquityError(.signedOut, "the account was deleted") }
        return row.number(0) ?? 0
    }

    /// The cap, and the part of it that is there for all commits.
    private func cap(_ db: Database) throws -> (forAll: Int64, forRelief: Int64) {
        let quota = try account("quota", db)?.number(0) ?? 0
        let (product, isTooLarge) = quota.multipliedReportingOverflow(by: CloudLimits.storedPerQuota)
        let cap = isTooLarge ? .max / 2 : max(product, CloudLimits.smallestCap)
        return (cap - min(CloudLimits.reliefBytes, cap / CloudLimits.reliefShare), cap)
    }

    private func account(_ column: String, _ db: Database) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(sql: "SELECT \(column) FROM accounts WHERE number = ?"), arguments: [account])
    }

    private func error() throws -> UbiquityError { try cloud.read { try error($0) } }

    private func error(_ db: Database) throws -> UbiquityError {
        UbiquityError(
            .quotaExceeded,
            "the account's storage is full: with earlier versions, deleted items and uploads it may have "
                + "\(try cap(db).forRelief) bytes",
            remedy: "earlier versions and deleted items expire by themselves; 'ubiquity serve' with a larger --quota "
                + "or a shorter --keep frees space at once")
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
