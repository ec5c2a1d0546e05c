internal import UbiquityCore
internal import UbiquitySystem

/// Rows lately read by inode number, so that open, getattr and read of a known item ask no database.
///
/// A row is only remembered if no commit ended or began since before it was read, and the rows of a commit are
/// forgotten before others can see it: who has read a row from the database never finds an older one here. Rows that a
/// commit wrote are remembered when it is made: what was just made or changed is asked for next.
final class RowCache: Sendable {
    /// Rows kept; at about 400 bytes each, 8 MB.
    private static let capacity = 20_000
    /// A commit of more rows is one of the cloud's pages; nobody asks for all of those at once.
    private static let maximumWritten = 64

    private struct State {
        var rows: [UInt64: ItemRow] = [:]
        var inodes: [ItemKey: UInt64] = [:]
        /// Counts the commits' beginnings and ends.
        var epoch: UInt64 = 0
        var isCommitting = false

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

    func remember(_ row: ItemRow, if epoch: UInt64) {
        state.withLock {
            guard $0.epoch == epoch else { return }
            $0.add(row)
        }
    }

    var all: [ItemRow] { state.withLock { Array($0.rows.values) } }

    func removeAll() {
        state.withLock { state in
            state.rows = [:]
            state.inodes = [:]
        }
    }

    /// Drops the rows of a commit that is about to be made.
    func beginCommit(of keys: Set<ItemKey>) {
        guard !keys.isEmpty else { return }
        state.withLock {
            $0.epoch += 1
            $0.isCommitting = true
            for key in keys {
                if let ino = $0.inodes.removeValue(forKey: key) { $0.rows.removeValue(forKey: ino) }
            }
        }
    }

    /// The commit is made, or failed.
    /// - Parameter written: the rows as it has made them; none if it failed.
    func endCommit(written: some Collection<ItemRow> = EmptyCollection()) {
        state.withLock {
            guard $0.isCommitting else { return }
            $0.epoch += 1
            $0.isCommitting = false
            guard written.count <= Self.maximumWritten else { return }
            for row in written { $0.add(row) }
        }
    }
}
