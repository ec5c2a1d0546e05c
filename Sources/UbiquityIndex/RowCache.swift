internal import UbiquityCore
internal import UbiquitySystem

/// Rows lately read by inode number, so that open, getattr and read of a known item ask no database; and names, so that
/// lookups of them ask none either.
///
/// A row is only remembered if no commit ended or began since before it was read, and the rows of a commit are
/// forgotten before others can see it: who has read a row from the database never finds an older one here. Rows that a
/// commit wrote are remembered when it is made: what was just made or changed is asked for next.
final class RowCache: Sendable {
    /// Rows kept; at about 400 bytes each, 8 MB.
    private static let capacity = 20_000
    /// A commit of more rows is one of the cloud's pages; nobody asks for all of those at once.
    static let maximumWritten = 64

    private struct State {
        var rows: [UInt64: ItemRow] = [:]
        var inodes: [ItemKey: UInt64] = [:]
        var names = NameCache()
        /// Counts the commits' beginnings and ends.
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

    /// To be asked before a row is read that may be remembered; nil if it may not.
    var epoch: UInt64? { state.withLock { $0.isCommitting ? nil : $0.epoch } }

    func row(ino: UInt64) -> ItemRow? { state.withLock { $0.rows[ino] } }
    func row(key: ItemKey) -> ItemRow? { state.withLock { state in state.inodes[key].flatMap { state.rows[$0] } } }

    enum Child {
        case row(ItemRow)
        case nobody
        case unknown
    }

    /// Who has a name.
    func child(at entry: ItemRow.Entry) -> Child {
        state.withLock { state in
            switch state.names.item(at: entry) {
            case .item(let key): state.inodes[key].flatMap { state.rows[$0] }.map(Child.row) ?? .unknown
            case .nobody: .nobody
            case .unknown: .unknown
            }
        }
    }

    /// - Parameter row: who has the name; nil for nobody.
    func remember(_ row: ItemRow?, at entry: ItemRow.Entry, if epoch: UInt64) {
        state.withLock {
            guard $0.epoch == epoch else { return }
            $0.names.remember(entry, row?.key)
            if let row { $0.add(row) }
        }
    }

    /// - Parameter children: all with a name.
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
        let forgetsAll = transaction.forgetsAll
        guard forgetsAll || !transaction.touched.isEmpty || !transaction.names.items.isEmpty else { return }
        state.withLock {
            $0.epoch += 1
            $0.isCommitting = true
            if forgetsAll { $0.removeAll() }
            for key in transaction.touched {
                if let ino = $0.inodes.removeValue(forKey: key) { $0.rows.removeValue(forKey: ino) }
            }
            $0.names.beginCommit(of: transaction.names)
        }
    }

    /// The commit is made: what it has made of rows and names is remembered.
    func endCommit(of transaction: IndexTransaction) {
        state.withLock {
            guard $0.isCommitting else { return }
            $0.epoch += 1
            $0.isCommitting = false
            let isShort = max(transaction.written.count, transaction.names.items.count) <= Self.maximumWritten
            $0.names.endCommit(isShort ? transaction.names : nil)
            guard isShort else { return }
            for row in transaction.written.values { $0.add(row) }
        }
    }

    /// The commit has failed, unless its end was told before.
    func endCommit() {
        state.withLock {
            guard $0.isCommitting else { return }
            $0.epoch += 1
            $0.isCommitting = false
            $0.names.endCommit(nil)
        }
    }
}
