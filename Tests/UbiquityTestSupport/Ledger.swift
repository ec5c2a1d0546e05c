package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The contents that a device's user has closed, and so may not be lost: each must be found at the cloud in the end,
/// as a current, an older or a conflict version, unless the same user replaced or removed it before it went up.
package final class Ledger: Sendable {
    private struct State {
        /// What stands in a file now, by the user's last word.
        var current: [ItemKey: ChunkID] = [:]
        /// What was confirmed by the cloud before the user wrote again.
        var confirmed: Set<ChunkID> = []
    }

    private let state = Lock(State())

    package init() {}

    /// The user has closed a file with this content.
    /// - Parameter before: the row before it was written; nil for a new file.
    func close(_ key: ItemKey, _ fingerprint: ChunkID, before: ItemRow?) {
        if let before { giveUp(before) }
        state.withLock { $0.current[key] = fingerprint }
    }

    /// The user replaces or removes what is in a file.
    func giveUp(_ row: ItemRow) {
        state.withLock { state in
            guard let old = state.current.removeValue(forKey: row.key) else { return }
            if row.dirty.isDisjoint(with: [.content, .created]) { state.confirmed.insert(old) }
        }
    }

    /// The content of one item has become another's.
    func move(from source: ItemRow, to target: ItemRow) {
        let moved = state.withLock { $0.current.removeValue(forKey: source.key) }
        giveUp(target)
        if let moved { state.withLock { $0.current[target.key] = moved } }
    }

    /// The content of an item that is gone has become another's.
    func move(_ fingerprint: ChunkID, to target: ItemKey, ifGone isGone: (ItemKey) throws -> Bool) rethrows {
        let holders = state.withLock { state in state.current.filter { $0.value == fingerprint }.map(\.key).sorted() }
        guard let source = try holders.first(where: isGone) else { return }
        state.withLock { state in
            state.current[source] = nil
            state.current[target] = fingerprint
        }
    }

    /// Every content that must be at the cloud when all is settled.
    package var required: Set<ChunkID> { state.withLock { $0.confirmed.union($0.current.values) } }
}
