internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The contents of changed files. It reads small ones, recognizes unchanged ones, and keeps prepared ones until their
/// commit.
///
/// It holds the prepared contents. The gatherer, `ContentUploader` and `PackageSync` call it, and `CommitOutcomes`
/// removes what was sent. It knows the context only.
final class PendingContents: SyncRoom {
    let context: SyncContext
    /// Contents whose chunks are uploaded and whose commit is pending.
    private let prepared = Lock([ItemKey: PreparedContent]())

    init(_ context: SyncContext) { self.context = context }

    /// The prepared contents by file.
    var all: [ItemKey: PreparedContent] { prepared.withLock { $0 } }

    /// Whether the row's present content is prepared.
    func isPrepared(_ row: ItemRow) -> Bool {
        prepared.withLock { $0[row.key]?.generation == row.generation }
    }

    /// Keeps contents whose chunks are uploaded.
    func keep(_ contents: [ItemKey: PreparedContent]) {
        prepared.withLock { $0.merge(contents) { _, new in new } }
    }

    /// Forgets the prepared contents of these files.
    func remove(_ keys: some Sequence<ItemKey>) {
        prepared.withLock { prepared in
            for key in keys { prepared[key] = nil }
        }
    }

    /// Whether the row must wait: a client writes it, or it is paused or throttled.
    func mustWait(_ row: ItemRow, _ now: Timestamp) -> Bool {
        if openItems?.isBeingWritten(row) ?? false {
            let until = now.advanced(bySeconds: SyncLimits.claimedRest / .seconds(1))
            agenda.pause(row.key, until: until, .isClaimed)
            return true
        }
        return agenda.pause(of: row.key, now) != nil || agenda.isThrottled(row.key)
    }

    /// Reads a consistent state of a small file. Nil if it is being written; it is then retried later.
    func readSmall(_ row: ItemRow) throws -> (PreparedContent, [UInt8])? {
        guard let content = row.content, !mustWait(row, timekeeper.now()) else { return nil }
        do {
            let file = try store.open(content, writable: false)
            let outcome = try scanner.scan(file)
            guard try isRecordedState(row, outcome) else {
                agenda.pauseBriefly([row.key], .changesDuringRead)
                return nil
            }
            switch outcome {
            case .stable(let scanned) where scanned.manifest.count <= 1:
                return try small(row, scanned, file)
            case .racy(let scanned) where !row.isWriting && scanned.manifest.count <= 1:
                // The last writer has closed the file. The next writer's open changes the row before it writes.
                return try small(row, scanned, file)
            case .stable, .racy, .changedMeanwhile:
                agenda.pauseBriefly([row.key], .changesDuringRead)
                return nil
            }
        } catch {
            // The content was replaced after the row was read, or the disk failed. The row decides which.
            if try index.row(key: row.key)?.content == content { problems.note(.from(error), .upload, of: row.key) }
            return nil
        }
    }

    /// Whether the scan equals the recorded state. While a program has the file open for writing, only the recorded
    /// state is one that the program meant: it may just have truncated the file. Later states are sent once recorded,
    /// at the latest at the close.
    func isRecordedState(_ row: ItemRow, _ outcome: ScanOutcome) throws -> Bool {
        let scanned: ScannedContent
        switch outcome {
        case .stable(let found), .racy(let found): scanned = found
        case .changedMeanwhile: return true
        }
        // Read the row after the scan: an open is recorded before it is answered, so before any write.
        guard let now = try index.row(key: row.key), now.isWriting else { return true }
        return scanned.size == now.size && scanned.modifiedAt == now.modifiedAt
    }

    private func small(_ row: ItemRow, _ scanned: ScannedContent, _ file: FileDescriptor) throws
        -> (PreparedContent, [UInt8])?
    {
        let bytes = try file.read(count: Int(scanned.size), at: 0)
        guard scanned.manifest.allSatisfy({ $0.id == ChunkNaming.name(of: bytes) }) else {
            agenda.pauseBriefly([row.key], .changesDuringRead)
            return nil
        }
        return (PreparedContent(row, scanned.manifest, scanned.size), bytes)
    }

    /// Clears the content's dirty bit if the same bytes were written again, so that nothing is uploaded.
    func markUnchanged(_ row: ItemRow, _ manifest: Manifest) throws -> Bool {
        guard let content = row.content, let version = row.version, !row.dirty.contains(.created) else { return false }
        let dropped = try index.write(.remote) { transaction -> [ContentID]? in
            // An item that was deleted and created anew is uploaded even with the same bytes, because that restores it.
            guard let remote = try transaction.remote(id: row.id), let known = remote.content, !known.isLost,
                !row.flags.contains(.returned) || !remote.isDeleted && known.version == version,
                try transaction.shownManifest(of: row, remote, known, content) == manifest,
                let current = try transaction.row(key: row.key), current.generation == row.generation
            else { return nil }
            var next = current
            next.dirty.remove(.content)
            next.flags.remove(.returned)
            next.nextVersion = nil
            try transaction.update(next, before: current)
            try transaction.setContent(
                ContentRecord(
                    content: content, version: version, size: current.size, manifest: manifest,
                    unsyncedBoot: configuration.boot))
            try transaction.setLocations(manifest, in: content)
            transaction.note(.attributes, before: current, after: next)
            // A deletion or newer content that waited for the edit is now applied.
            var settler = settler(transaction)
            try settler.review(row.id)
            return settler.dropped
        }
        discard(dropped ?? [])
        return dropped != nil
    }
}

extension PreparedContent {
    init(_ row: ItemRow, _ manifest: Manifest, _ size: Int64) {
        self.init(generation: row.generation, manifest: manifest, size: size)
    }
}

extension ItemRow {
    /// Whether the index must record something before the changes are sent: that they are sent, or the version's id.
    var isToBeMarked: Bool {
        guard !isDeleted else { return false }
        return dirty.contains(.content) && nextVersion == nil
            || bringsIntoBeing && !flags.contains(.creationSent)
    }

    /// Whether the change makes the item exist at the cloud: the item is new, or was deleted.
    var bringsIntoBeing: Bool { dirty.contains(.created) || flags.contains(.returned) }

    /// Whether the cloud knows the item and more than its content and times has changed.
    var hasMoreThanContent: Bool {
        !dirty.contains(.created) && !dirty.subtracting([.content, .times]).isEmpty
    }

    /// Whether the row has a dirty content small enough to travel inside the commit.
    var wantsInlineContent: Bool {
        kind == .file && dirty.contains(.content) && contentState == .complete && size <= SyncLimits.inlineContentSize
            && !isDeleted && !isFresh
    }
}
