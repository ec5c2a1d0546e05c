internal import UbiquityCore
internal import UbiquitySystem

/// Caches recently read rows by inode number, so that open, getattr and read of a known item need no database query;
/// and names, for lookups.
///
/// A row is remembered only if no commit began or ended since before it was read. A commit's rows are dropped before
/// others can see the commit. So a reader that has a row from the database never finds an older one here. Rows written
/// by a commit are remembered when it ends, because new and changed items are usually queried next.
final class RowCache: Sendable {
    /// Maximum rows; at about 400 bytes each, 8 MB.
    private static let capacity = 20_000
    /// A commit of more rows is a page of the feed; its rows are rarely queried all at once.
    static let maximumWritten = 64

    private struct State {
        var rows: [UInt64: ItemRow] = [:]
        var inodes: [ItemKey: UInt64] = [:]
        var names = NameCache()
        /// Counts the beginnings and ends of commits.
        var epoch: UInt64 = 0
        var isCommitting = false

        mutating func removeAll() {
            rows = [:]
            inodes = [:]
            names.removeAll()
        }

        mutating func add(_ row: ItemRow) {
            if rows.count >= RowCache.capacity {
                // Dropping all costs one database read for each item still in use, once per 20,000 new ones.
                rows.removeAll(keepingCapacity: true)
                inodes.removeAll(keepingCapacity: true)
            }
            rows[row.ino] = row
            inodes[row.key] = row.ino
        }
    }

    private let state = Lock(State())

    /// The value to take before reading a row to remember; nil if it must not be remembered.
    var epoch: UInt64? { state.withLock { $0.isCommitting ? nil : $0.epoch } }

    func row(ino: UInt64) -> ItemRow? { state.withLock { $0.rows[ino] } }
    func row(key: ItemKey) -> ItemRow? { state.withLock { state in state.inodes[key].flatMap { state.rows[$0] } } }

    enum Child {
        case row(ItemRow)
        case nobody
        case unknown
    }

    /// Returns the item that has a name.
    func child(at entry: ItemRow.Entry) -> Child {
        state.withLock { state in
            switch state.names.item(at: entry) {
            case .item(let key): state.inodes[key].flatMap { state.rows[$0] }.map(Child.row) ?? .unknown
            case .nobody: .nobody
            case .unknown: .unknown
            }
        }
    }

    /// - Parameter row: The item that has the name; nil if the name is free.
    func remember(_ row: ItemRow?, at entry: ItemRow.Entry, if epoch: UInt64) {
        state.withLock {
            guard $0.epoch == epoch else { return }
            $0.names.remember(entry, row?.key)
            if let row { $0.add(row) }
        }
    }

    /// - Parameter children: Rows that each have a name.
    func remember(children: [ItemRow], if epoch: UInt64) {
        state.withLock {
            guard $0.epoch == epoch else { return }
            for row in children {
                if let entry = row.entry { $0.names.remember(entry, row.key) }
                $0.add(row)
            }
        }
    }

    func remember(_ row: ItemRow, if epoch: UInt64) {
        state.withLock {
            guard $0.epoch == epoch else { return }
            $0.add(row)
        }
    }

    var all: [ItemRow] { state.withLock { Array($0.rows.values) } }
    var allNames: (items: [ItemRow.Entry: ItemKey?], whole: Set<ItemKey>) { state.withLock { $0.names.contents } }

    func forgetAll() {
        state.withLock {
            $0.epoch += 1
            $0.removeAll()
        }
    }

    /// Drops the rows and names of a commit that is about to be made.
    func beginCommit(of transaction: IndexTransaction) {
        let forgetsAll = transaction.changes.forgetsAll
        guard forgetsAll || !transaction.changes.touched.isEmpty || !transaction.changes.names.items.isEmpty else {
            return
        }
        state.withLock {
            $0.epoch += 1
            $0.isCommitting = true
            if forgetsAll { $0.removeAll() }
            for key in transaction.changes.touched {
                if let ino = $0.inodes.removeValue(forKey: key) { $0.rows.removeValue(forKey: ino) }
            }
            $0.names.beginCommit(of: transaction.changes.names)
        }
    }

    /// Remembers the rows and names of a successful commit.
    func endCommit(of transaction: IndexTransaction) {
        state.withLock {
            guard $0.isCommitting else { return }
            $0.epoch += 1
            $0.isCommitting = false
            let isShort = transaction.changes.written.count <= Self.maximumWritten
                && transaction.changes.names.items.count <= Self.maximumWritten
            $0.names.endCommit(isShort ? transaction.changes.names : nil)
            guard isShort else { return }
            for row in transaction.changes.written.values { $0.add(row) }
        }
    }

    /// Ends a failed commit. Does nothing after a successful one.
    func endCommit() {
        state.withLock {
            guard $0.isCommitting else { return }
            $0.epoch += 1
            $0.isCommitting = false
            $0.names.endCommit(nil)
        }
    }
}
