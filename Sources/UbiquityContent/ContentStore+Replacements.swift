package import UbiquityCore
package import UbiquitySystem

/// Contents that replace others under a name, and contents synced in their current state.
struct Replacements {
    /// Synced contents remembered. A forgotten one is merely synced again.
    static let maximumSynced = 1024

    var waiting: Set<ContentID> = []
    /// The number of syncs of the index in progress.
    var indexSyncs = 0
    var synced: [ContentID: FileStatus] = [:]
    /// Contents whose sync failed, whoever requested it: the kernel reports a failure once and then takes the pages for
    /// written.
    var failed: [ContentID: FailedSync] = [:]
    var failures: UInt64 = 0
}

struct FailedSync {
    let error: UbiquityError
    /// The number of the failure: repairing one failure does not repair a later one.
    let number: UInt64
}

// Contents that replaced others. They must be on the disk before the index that references them. Otherwise a loss of
// power would leave neither the old content nor the new one. A file that was saved and synced could then be lost by a
// later save that was not.
//
// Records written to the index's journal during its sync may become durable with it. So a sync of the index first
// announces itself, then syncs the waiting contents. A replacement made during the sync syncs its content itself.
extension ContentStore {
    /// Records a content that is about to replace another, and starts to write its bytes to the disk.
    /// - Parameter file: the content's file, if it is open.
    /// - Returns: whether all of it is on the disk.
    @discardableResult
    package func noteReplacement(_ id: ContentID, _ file: FileDescriptor? = nil) throws -> Bool {
        let (isSyncing, synced) = replacements.withLock { state in
            state.waiting.insert(id)
            return (state.indexSyncs > 0, state.synced[id])
        }
        if isSyncing {
            try sync(replacement: id)
            return true
        }
        if let synced {
            guard try (file?.status() ?? status(of: id))?.isSame(as: synced) ?? false else { return false }
            // It need not be tracked any more: later writes to it replace no content.
            forget(replacement: id)
            return true
        }
        // Only an optimisation; a failure shows at the later sync.
        if let file = try? file ?? open(id, writable: false) { try? file.startWriting() }
        return false
    }

    /// Records that a content and its name were synced.
    /// - Parameter status: the file's status before the sync began.
    package func noteSynced(_ id: ContentID, _ status: FileStatus) {
        replacements.withLock { state in
            if state.synced.count >= Replacements.maximumSynced { state.synced = [:] }
            state.synced[id] = status
        }
    }

    /// Syncs the waiting contents before a sync of the index. `endIndexSync` must follow, also after an error.
    package func beginIndexSync() throws {
        let waiting = replacements.withLock { state in
            state.indexSyncs += 1
            return state.waiting
        }
        for id in waiting.sorted(by: { $0.rawValue < $1.rawValue }) {
            do { try sync(replacement: id) } catch {
                // A content retired since, which the index does not need, must not block the others.
                guard isRetired(id) else { throw error }
                forget(replacement: id)
            }
        }
    }

    private func forget(replacement id: ContentID) {
        replacements.withLock { state in
            state.waiting.remove(id)
            state.synced[id] = nil
        }
    }

    package func endIndexSync() { replacements.withLock { $0.indexSyncs -= 1 } }

    /// Records that a sync of the content's bytes has failed.
    package func noteFailedSync(_ id: ContentID, _ error: UbiquityError) {
        replacements.withLock { state in
            state.failures += 1
            state.failed[id] = FailedSync(error: error, number: state.failures)
            state.synced[id] = nil
        }
    }

    /// Why a sync of the content failed, unless all of it was rewritten since.
    package func failure(of id: ContentID) -> UbiquityError? { replacements.withLock { $0.failed[id]?.error } }

    /// Forgets the failures of retired contents.
    func forgetFailures(of contents: [ContentID]) {
        replacements.withLock { state in
            guard !state.failed.isEmpty else { return }
            for id in contents { state.failed[id] = nil }
        }
    }

    /// Syncs a content and its name. Does nothing if the file is gone. After a failure it succeeds only once all of the
    /// content was rewritten, which is impossible while a program writes to it.
    package func sync(_ id: ContentID) throws { try sync(id, unless: nil) }

    private func sync(replacement id: ContentID) throws {
        try sync(id, unless: replacements.withLock { $0.synced[id] })
        forget(replacement: id)
    }

    /// - Parameter synced: the file's status at its last sync. An unchanged file is not synced again, unless a sync has
    ///   failed since.
    private func sync(_ id: ContentID, unless synced: FileStatus?) throws {
        // No file: the content was itself replaced meanwhile and removed.
        guard let status = try status(of: id) else { return }
        let failure = replacements.withLock { $0.failed[id] }
        if let failure {
            guard try writeAnew(id, upTo: .max) else { throw failure.error }
        } else if status.isSame(as: synced) {
            return
        }
        try syncWhole(id)
        guard let failure else { return }
        replacements.withLock { if $0.failed[id]?.number == failure.number { $0.failed[id] = nil } }
    }
}

extension FileStatus {
    /// Whether nothing was written between the two.
    fileprivate func isSame(as other: FileStatus?) -> Bool {
        size == other?.size && modifiedAt == other?.modifiedAt && changedAt == other?.changedAt
    }
}
