internal import UbiquityCore
internal import UbiquitySystem

/// Small chunks in the database that turned out not to match their ids. They count as missing, so that a device that
/// has one sends it again; the new copy replaces the damaged one.
///
/// Known to this process only: in the next process the first read detects the damage again.
final class DamagedChunks: Sendable {
    private struct Name: Hashable {
        var account: Int64
        var id: ChunkID
    }

    /// Damaged copies that are remembered (some 3 MiB). The next read of a forgotten one detects it again.
    private static let capacity = 65_536

    private let names = Lock(Set<Name>())

    func contains(_ id: ChunkID, of account: Int64) -> Bool {
        names.withLock { !$0.isEmpty && $0.contains(Name(account: account, id: id)) }
    }

    func note(_ id: ChunkID, of account: Int64) {
        names.withLock { names in
            if names.count >= Self.capacity { names.removeAll() }
            names.insert(Name(account: account, id: id))
        }
    }

    func noteSound(_ id: ChunkID, of account: Int64) {
        names.withLock { names in
            if !names.isEmpty { names.remove(Name(account: account, id: id)) }
        }
    }
}
