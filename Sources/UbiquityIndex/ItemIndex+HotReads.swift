package import UbiquityCore
internal import UbiquitySystem

// The queries of every file system call, answered from memory where possible (`RowCache`).
extension ItemIndex {
    package func row(ino: UInt64) throws -> ItemRow? {
        if let row = cache.rows.row(ino: ino) { return row }
        let epoch = cache.rows.epoch
        guard let row = try peek({ try $0.row(ino: ino) }) else { return nil }
        if let epoch { cache.rows.remember(row, if: epoch) }
        return row
    }

    package func row(key: ItemKey) throws -> ItemRow? { try cache.rows.row(key: key) ?? peek { try $0.row(key: key) } }

    /// Returns the item of that name; for a hard link, its target.
    package func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        let entry = ItemRow.Entry(parent: parent, name: name)
        switch cache.rows.child(at: entry) {
        case .row(let row) where row.kind != .hardLink: return row
        case .row(let link): return try peek { try $0.named(link) }
        case .nobody: return nil
        case .unknown: break
        }
        return try peek(readChild(entry, if: cache.rows.epoch))
    }

    /// - Parameter epoch: Nil if nothing may be cached.
    private func readChild(_ entry: ItemRow.Entry, if epoch: UInt64?) -> (IndexReader) throws -> ItemRow? {
        { [self] reader in
            guard let epoch else { return try reader.child(of: entry.parent, named: entry.name).flatMap(reader.named) }
            if let row = try readInOrder(entry, if: epoch, reader) { return try reader.named(row) }
            let row = try reader.child(of: entry.parent, named: entry.name)
            cache.rows.remember(row, at: entry, if: epoch)
            if row != nil { cache.namesInOrder.withLock { $0.note(entry) } }
            return try row.flatMap(reader.named)
        }
    }

    /// Returns the item of that name and caches those after it, if names are being read in order.
    private func readInOrder(_ entry: ItemRow.Entry, if epoch: UInt64, _ reader: IndexReader) throws -> ItemRow? {
        guard let (after, limit) = cache.namesInOrder.withLock({ $0.guess(entry) }) else { return nil }
        let rows = try reader.children(of: entry.parent, after: after, limit: limit)
        guard let first = rows.first, first.entry == entry, let last = rows.last?.entry?.name else {
            cache.namesInOrder.withLock { $0.refute(entry.parent) }
            return nil
        }
        cache.rows.remember(children: rows, if: epoch)
        cache.namesInOrder.withLock { $0.confirm(entry.parent, last: last) }
        return first
    }
}
