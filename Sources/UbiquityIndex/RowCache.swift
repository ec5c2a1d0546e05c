internal import UbiquityCore
internal import UbiquitySystem

/// Rows lately read by inode number, so that open, getattr and read of a known item ask no database.
///
/// A row is only remembered if nothing was committed since before it was read, and is forgotten when a commit touches
/// it: what the cache has is never older than the last commit.
final class RowCache: Sendable {
    /// Rows kept; at about 400 bytes each, 8 MB.
    private static let capacity = 20_000

    private struct State {
        var rows: [UInt64: ItemRow] = [:]
        var inodes: [ItemKey: UInt64] = [:]
        var epoch: UInt64 = 0
    }

    private let state = Lock(State())

    var epoch: UInt64 { state.withLock { $0.epoch } }

    func row(ino: UInt64) -> ItemRow? { state.withLock { $0.rows[ino] } }

    func remember(_ row: ItemRow, if epoch: UInt64) {
        state.withLock {
            guard $0.epoch == epoch else { return }
            if $0.rows.count >= Self.capacity {
                // Dropping all costs one database read for each item still in use, once per 20,000 new ones.
                $0.rows.removeAll(keepingCapacity: true)
                $0.inodes.removeAll(keepingCapacity: true)
            }
            $0.rows[row.ino] = row
            $0.inodes[row.key] = row.ino
        }
    }

    /// Drops the rows of a commit.
    func forget(_ keys: Set<ItemKey>) {
        guard !keys.isEmpty else { return }
        state.withLock {
            $0.epoch += 1
            for key in keys {
                if let ino = $0.inodes.removeValue(forKey: key) { $0.rows.removeValue(forKey: ino) }
            }
        }
    }
}
