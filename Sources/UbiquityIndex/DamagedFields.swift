package import UbiquityCore

/// Rows with an unreadable list of attributes or chunks.
package struct DamagedFields: Sendable {
    /// Rows of the local tree.
    package var items: [ItemKey] = []
    /// The cloud's records.
    package var records: [ItemID] = []
}

// One damaged field must not make other rows unreadable. Its value is taken from the local row or the cloud's record
// until the doctor has repaired it.
extension IndexReader {
    /// Examines every row.
    package func damagedFields() throws -> DamagedFields {
        var damaged = DamagedFields()
        let attributes = "SELECT key, xattrs, localXattrs FROM items WHERE xattrs NOTNULL OR localXattrs NOTNULL"
        try db.run(attributes, []) { row in
            guard BlobCoding.readable(row.bytes(1)) == nil || BlobCoding.readable(row.bytes(2)) == nil else { return }
            damaged.items.append(ItemKey(row.int(0)))
        }
        try db.run("SELECT id, xattrs, manifest FROM remote WHERE xattrs NOTNULL OR manifest NOTNULL", []) { row in
            let isWhole = BlobCoding.readable(row.bytes(1)) != nil
                && row.bytes(2).map { (try? BlobCoding.manifest($0)) != nil } ?? true
            if !isWhole, let id: ItemID = row.id(0) { damaged.records.append(id) }
        }
        return damaged
    }

    /// Decodes a row. Unreadable attributes are replaced by those of the cloud's record.
    func item(_ row: SQLRow) throws -> ItemRow {
        do { return try RowCoding.row(row) } catch {
            var item = try RowCoding.row(row, leavingOutAttributes: true)
            item.localXattrs = BlobCoding.readable(row.bytes(RowCoding.localXattrs)) ?? []
            item.xattrs = try BlobCoding.readable(row.bytes(RowCoding.xattrs)) ?? remote(id: item.id)?.xattrs ?? []
            return item
        }
    }
}

extension IndexTransaction {
    /// Stores the attributes that replace unreadable ones.
    package func rewriteAttributes(of row: ItemRow) throws {
        try execute(
            "UPDATE items SET xattrs = ?, localXattrs = ? WHERE key = ?",
            [
                SQLValue(nonEmpty: BlobCoding.encode(row.xattrs)),
                SQLValue(nonEmpty: BlobCoding.encode(row.localXattrs)), SQLValue(row.key),
            ])
        forgetRemembered(recounts: false)
    }

    /// Sets an item's kind to that of its record.
    package func setKind(_ kind: ItemKind, of row: ItemRow) throws {
        try execute("UPDATE items SET kind = ? WHERE key = ?", [.int(Int64(kind.rawValue)), SQLValue(row.key)])
        try execute(
            "UPDATE entries SET directory = ? WHERE item = ?", [kind == .directory ? 1 : 0, SQLValue(row.key)])
        if kind != .file {
            try execute("UPDATE items SET content = NULL, contentState = 0 WHERE key = ?", [SQLValue(row.key)])
        }
        forgetRemembered()
    }
}
