package import UbiquityCore
package import UbiquitySystem

/// Contents that a name has in place of others, and which contents were synced as they are.
struct Replacements {
    /// Synced contents that are remembered; without a memory one is only synced once more.
    static let maximumSynced = 1024

    var waiting: Set<ContentID> = []
    var synced: [ContentID: FileStatus] = [:]
}

// Contents that took the place of others: they must be on the disk before the index that says so, or a power loss
// would leave neither the old content nor the new one. (Without that a file that was saved and synced could be lost by
// a later save which was not.)
extension ContentStore {
    /// Takes note of a content that is about to be a name's in place of another. Its bytes are sent on their way.
    package func noteReplacement(_ id: ContentID) {
        replacements.withLock { _ = $0.waiting.insert(id) }
        // Only to be quicker later; what fails here fails there.
        if let file = try? open(id, writable: false) { try? file.startWriting() }
    }

    /// Takes note that a content, and its name, was brought to the disk.
    /// - Parameter status: of the file before that was begun.
    package func noteSynced(_ id: ContentID, _ status: FileStatus) {
        replacements.withLock { state in
            if state.synced.count >= Replacements.maximumSynced { state.synced = [:] }
            state.synced[id] = status
        }
    }

    /// Brings them to the disk. To be called before the index is brought there.
    package func syncReplacements() throws {
        let (waiting, synced) = replacements.withLock { ($0.waiting, $0.synced) }
        for id in waiting.sorted(by: { $0.rawValue < $1.rawValue }) {
            try syncReplacement(id, synced[id])
            replacements.withLock { state in
                state.waiting.remove(id)
                state.synced[id] = nil
            }
        }
    }

    private func syncReplacement(_ id: ContentID, _ synced: FileStatus?) throws {
        // None: replaced itself meanwhile, and removed.
        guard let status = try status(of: id), !status.isSame(as: synced) else { return }
        let file = try open(id, writable: false)
        try describing("sync the content", at: path(of: id)) { () throws(Errno) in try file.syncData() }
        try syncName(of: id)
    }
}

extension FileStatus {
    /// Whether nothing was written between the two.
    fileprivate func isSame(as other: FileStatus?) -> Bool {
        size == other?.size && modifiedAt == other?.modifiedAt && changedAt == other?.changedAt
    }
}
