internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Keeps new files back while they may be temporary ones that a program is about to rename over a document.
///
/// It holds when each of them was first kept back. The gatherer calls it. It knows the context only.
final class NewFiles: SyncRoom {
    let context: SyncContext
    private let keptSince = Lock([ItemKey: Timestamp]())

    init(_ context: SyncContext) { self.context = context }

    /// Forgets all files but these.
    func forgetOthers(than unfinished: Set<ItemKey>) {
        keptSince.withLock { files in files = files.filter { unfinished.contains($0.key) } }
    }

    /// The time until which a new file may be a temporary one that a program is about to rename over a document: while
    /// it is written, and shortly after. It is not announced before. Nil for any other row.
    func finish(of row: ItemRow, _ reader: IndexReader, _ now: Timestamp) throws -> Timestamp? {
        guard row.dirty.contains(.created), row.kind == .file, !row.isDeleted else { return nil }
        // The writer's close is a change and triggers the next look.
        if row.isWriting, row.generation == 0 { return now.advanced(bySeconds: SyncLimits.pollInterval / .seconds(1)) }
        guard row.dirtyAt <= now else { return nil }
        let soon = row.dirtyAt.advanced(bySeconds: SyncLimits.newFileRest / .seconds(1))
        if soon > now { return soon }
        let latest = row.dirtyAt.advanced(bySeconds: SyncLimits.temporaryFileRest / .seconds(1))
        guard latest > now, try row.mayBeTemporary(reader) else { return nil }
        let since = keptSince.withLock { files in
            let since = min(files[row.key] ?? now, now)
            files[row.key] = since
            return since
        }
        return min(latest, since.advanced(bySeconds: SyncLimits.temporaryFilePatience / .seconds(1)))
    }
}
