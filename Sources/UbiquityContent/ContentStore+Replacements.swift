package import UbiquityCore
package import UbiquitySystem

/// Contents that a name has in place of others, and which contents were synced as they are.
struct Replacements {
    /// Synced contents that are remembered; without a memory one is only synced once more.
    static let maximumSynced = 1024

    var waiting: Set<ContentID> = []
    /// How often the index is being brought to the disk just now.
    var indexSyncs = 0
    var synced: [ContentID: FileStatus] = [:]
    /// Those whose sync has failed, whoever asked for it: the kernel tells that once, and takes their pages for written
    /// then.
    var failed: [ContentID: FailedSync] = [:]
    var failures: UInt64 = 0
}

struct FailedSync {
    let error: UbiquityError
    /// Which failure it was: what is made good of one says nothing of the next.
    let number: UInt64
}

// Contents that took the place of others: they must be on the disk before the index that says so, or a power loss
// would leave neither the old content nor the new one. (Without that a file that was saved and synced could be lost by
// a later save which was not.)
//
// What is written to the index's journal while that is brought to the disk may get there with it. So who brings it
// there says so first, and then brings what waits; and who makes a replacement meanwhile brings its content there
// himself.
extension ContentStore {
    /// Takes note of a content that is about to be a name's in place of another. Its bytes are sent on their way.
    /// - Parameter file: the content's, if it is open.
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
            // It need not be looked at again: what is written to it from here on takes nothing's place.
            forget(replacement: id)
            return true
        }
        // Only to be quicker later; what fails here fails there.
        if let file = try? file ?? open(id, writable: false) { try? file.startWriting() }
        return false
    }

    /// Takes note that a content, and its name, was brought to the disk.
    /// - Parameter status: of the file before that was begun.
    package func noteSynced(_ id: ContentID, _ status: FileStatus) {
        replacements.withLock { state in
            if state.synced.count >= Replacements.maximumSynced { state.synced = [:] }
            state.synced[id] = status
        }
    }

    /// The index is about to be brought to the disk: those that wait are brought there. `endIndexSync` must follow,
    /// also if this throws.
    package func beginIndexSync() throws {
        let waiting = replacements.withLock { state in
            state.indexSyncs += 1
            return state.waiting
        }
        for id in waiting.sorted(by: { $0.rawValue < $1.rawValue }) {
            do { try sync(replacement: id) } catch {
                // What was given up since, so that the index need not have it, keeps no other from the disk.
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

    /// Takes note that a sync of the content's bytes has failed.
    package func noteFailedSync(_ id: ContentID, _ error: UbiquityError) {
        replacements.withLock { state in
            state.failures += 1
            state.failed[id] = FailedSync(error: error, number: state.failures)
            state.synced[id] = nil
        }
    }

    /// Why a sync of the content has failed, if all of it has not been written anew since.
    package func failure(of id: ContentID) -> UbiquityError? { replacements.withLock { $0.failed[id]?.error } }

    /// Those that were retired are of no interest any more.
    func forgetFailures(of contents: [ContentID]) {
        replacements.withLock { state in
            guard !state.failed.isEmpty else { return }
            for id in contents { state.failed[id] = nil }
        }
    }

    /// Brings a content and its name to the disk; nothing if it is gone. After a failure that is a success only once
    /// all of it was written anew, which it is not while somebody writes to it.
    package func sync(_ id: ContentID) throws { try sync(id, unless: nil) }

    private func sync(replacement id: ContentID) throws {
        try sync(id, unless: replacements.withLock { $0.synced[id] })
        forget(replacement: id)
    }

    /// - Parameter synced: the file as it was when it was synced: it need not be once more if nothing has failed since.
    private func sync(_ id: ContentID, unless synced: FileStatus?) throws {
        // None: replaced itself meanwhile, and removed.
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
