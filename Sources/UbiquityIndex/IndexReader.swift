import GRDB
internal import UbiquityCore

/// Queries of the index through one connection. Valid only inside the call that passed it.
///
/// Each table has a struct of its own with its queries: `items`, `remotes`, `contents` and so on. A transaction has a
/// reader, whose queries see the transaction's changes.
package struct IndexReader: IndexQueries {
    let connection: Database
    /// Nil outside a transaction.
    let transaction: IndexTransaction?
    private let seesBatch: Bool

    /// - Parameter seesBatch: Whether the reader sees uncommitted changes.
    init(_ connection: Database, seesBatch: Bool = false) {
        self.connection = connection
        self.seesBatch = seesBatch
        transaction = nil
    }

    init(_ transaction: IndexTransaction) {
        connection = transaction.connection
        self.transaction = transaction
        seesBatch = true
    }

    package var reader: IndexReader { self }

    // MARK: Tables

    package var items: ItemTable { ItemTable(reader: self) }
    package var remotes: RemoteTable { RemoteTable(reader: self) }
    package var contents: ContentTable { ContentTable(reader: self) }
    package var versions: VersionTable { VersionTable(reader: self) }
    package var pending: PendingTable { PendingTable(reader: self) }
    package var deletions: DeletionTable { DeletionTable(reader: self) }
    package var meta: MetaTable { MetaTable(reader: self) }
    package var folders: FolderTable { FolderTable(reader: self) }
    package var examination: IndexExamination { IndexExamination(reader: self) }

    // MARK: Statements

    /// Whether the reader sees changes that the stored totals of folders do not include. They include a transaction's
    /// changes only after its commit.
    var isAheadOfSums: Bool { seesBatch }

    /// The connection for queries, after all earlier changes of the transaction have run.
    var db: Database {
        get throws {
            try transaction?.runAll()
            return connection
        }
    }

    /// The connection for queries that concern only statements run at once (`IndexTransaction.executeAtOnce`).
    var currentPart: Database { get throws { try transaction?.currentPart ?? connection } }

    func rows(_ sql: String, _ values: [SQLValue]) throws -> [ItemRow] {
        var result = [ItemRow]()
        try db.run(sql, values) { result.append(try item($0)) }
        return result
    }

    func one(_ sql: String, _ values: [SQLValue]) throws -> ItemRow? { try db.first(sql, values, item) }

    func exists(_ sql: String, _ values: [SQLValue]) throws -> Bool { try db.first(sql, values) { _ in true } ?? false }

    /// Returns the first column of the first row; nil if there is no row, or the value is null.
    func number(_ sql: String, _ values: [SQLValue]) throws -> Int64? {
        try db.first(sql, values) { $0.optionalInt(0) } ?? nil
    }

    /// Decodes a row. One damaged field must not make other rows unreadable. So unreadable attributes are replaced by
    /// those of the cloud's record, until the doctor has repaired the row.
    func item(_ row: SQLRow) throws -> ItemRow {
        do { return try RowCoding.row(row) } catch {
            var item = try RowCoding.row(row, leavingOutAttributes: true)
            item.localXattrs = BlobCoding.readable(row.bytes(RowCoding.localXattrs)) ?? []
            item.xattrs = try BlobCoding.readable(row.bytes(RowCoding.xattrs))
                ?? remotes.remote(id: item.id)?.xattrs ?? []
            return item
        }
    }
}

/// A group of queries over one connection.
protocol IndexTable {
    var reader: IndexReader { get }
}

extension IndexTable {
    var db: Database { get throws { try reader.db } }
    var currentPart: Database { get throws { try reader.currentPart } }

    func rows(_ sql: String, _ values: [SQLValue]) throws -> [ItemRow] { try reader.rows(sql, values) }
    func one(_ sql: String, _ values: [SQLValue]) throws -> ItemRow? { try reader.one(sql, values) }
    func exists(_ sql: String, _ values: [SQLValue]) throws -> Bool { try reader.exists(sql, values) }
    func number(_ sql: String, _ values: [SQLValue]) throws -> Int64? { try reader.number(sql, values) }
}
