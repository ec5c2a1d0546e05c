internal import UbiquityCore
internal import UbiquitySystem

/// Small chunks of the database that turned out not to be what their ids say. They count as missing, so that whoever
/// has one sends it again; a copy that is stored anew takes the damaged one's place.
///
/// Known to this process only: the next one's first reader finds the damage again.
final class DamagedChunks: Sendable {
    private struct Name: Hashable {
        var account: Int64
        var id: ChunkID
    }

    /// Damaged copies that are remembered (some 3 MiB). One that is forgotten is found again by its next reader.
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
