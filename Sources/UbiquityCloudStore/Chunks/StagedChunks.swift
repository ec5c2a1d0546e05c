internal import UbiquityCore
internal import UbiquitySystem

/// State of a `FileChunkStore` beyond its files: the chunks this process stored and has not made durable yet, the
/// folders it has synced, and the stored copies that turned out to be damaged.
///
/// It decides about `incoming/`: a file there without an entry here is being written, or is garbage.
final class StagedChunks: Sendable {
    private struct State {
        /// By chunk: the number of its file in `incoming/`.
        var numbers: [ChunkID: UInt64] = [:]
        var nextNumber: UInt64 = 0
        var syncedFolders: Set<UInt8> = []
        var damaged: Set<ChunkID> = []
    }

    /// Damaged copies that are remembered (2 MiB of ids). The next read of a forgotten one detects it again.
    private static let maximumDamaged = 65_536

    private let state = Lock(State())

    var count: Int { state.withLock { $0.numbers.count } }
    var ids: [ChunkID] { state.withLock { Array($0.numbers.keys) } }

    /// A number that no other file of this process has.
    func drawNumber() -> UInt64 {
        state.withLock { state in
            state.nextNumber += 1
            return state.nextNumber
        }
    }

    func number(of id: ChunkID) -> UInt64? { state.withLock { $0.numbers[id] } }

    /// Enters a completely written file, unless another replaced `seen` meanwhile.
    func enter(_ id: ChunkID, _ number: UInt64, replacing seen: UInt64?) -> Bool {
        state.withLock { state in
            guard state.numbers[id] == seen else { return false }
            state.numbers[id] = number
            state.damaged.remove(id)
            return true
        }
    }

    /// Removes the entry, if it is still this one.
    func forget(_ id: ChunkID, _ number: UInt64) {
        state.withLock { state in
            if state.numbers[id] == number { state.numbers[id] = nil }
        }
    }

    /// Removes all entries, including synced folders.
    /// - Returns: the numbers of the files.
    func forgetAll() -> [UInt64] {
        state.withLock { state in
            defer {
                state.numbers = [:]
                state.syncedFolders = []
            }
            return Array(state.numbers.values)
        }
    }

    func isSynced(folder: UInt8) -> Bool { state.withLock { $0.syncedFolders.contains(folder) } }
    func noteSynced(folders: Set<UInt8>) { state.withLock { $0.syncedFolders.formUnion(folders) } }

    func isDamaged(_ id: ChunkID) -> Bool { state.withLock { $0.damaged.contains(id) } }

    func noteSound(_ id: ChunkID) { state.withLock { _ = $0.damaged.remove(id) } }

    func noteDamaged(_ id: ChunkID) {
        state.withLock { state in
            if state.damaged.count >= Self.maximumDamaged { state.damaged.removeAll() }
            state.damaged.insert(id)
        }
    }
}
