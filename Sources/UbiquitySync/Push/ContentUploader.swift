internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Uploads large contents: scanned, cut, and sent chunk by chunk beside the commits. The commit follows when all chunks
/// are uploaded.
///
/// It holds the uploads under way, and the files that were found too large. `ChangeSender` starts the uploads. It knows
/// `PendingContents`, which keeps the results, `AccountQuota` and `CommitSender`, whose pace it follows.
final class ContentUploader: SyncRoom {
    let context: SyncContext
    private let sender: CommitSender
    private let contents: PendingContents
    private let quota: AccountQuota

    private struct State {
        /// Files whose content is being uploaded.
        var uploading: Set<ItemKey> = []
        /// Files beyond the cloud's limit for one file, with their generation at that time.
        var tooLarge: [ItemKey: Int64] = [:]
    }

    private let uploads = Lock(State())

    init(_ context: SyncContext, _ sender: CommitSender, _ contents: PendingContents, _ quota: AccountQuota) {
        self.context = context
        self.sender = sender
        self.contents = contents
        self.quota = quota
    }

    /// Dirty files whose content is to be uploaded now, up to the limit of concurrent uploads. They are marked as
    /// uploading.
    func largeContents() throws -> [ItemRow] {
        let now = timekeeper.now()
        var result = [ItemRow]()
        var order: Int64 = 0
        var slots = SyncLimits.concurrentUploads - uploads.withLock { $0.uploading.count }
        while slots > 0 {
            let rows = try index.read { try $0.dirtyRows(after: order, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { break }
            order = last.dirtyOrder
            for row in rows where try slots > 0 && needsUpload(row, now) {
                guard uploads.withLock({ !$0.uploading.contains(row.key) }) else { continue }
                result.append(row)
                slots -= 1
            }
        }
        // Mark them once nothing can fail any more: a marked file must be uploaded.
        uploads.withLock { $0.uploading.formUnion(result.map(\.key)) }
        return result
    }

    private func needsUpload(_ row: ItemRow, _ now: Timestamp) throws -> Bool {
        guard row.kind == .file, row.dirty.contains(.content), !row.isDeleted, row.contentState == .complete,
            !row.wantsInlineContent, !row.isFresh, !problems.isHeld(.upload, of: row.key)
        else { return false }
        if contents.isPrepared(row) { return false }
        guard agenda.pause(of: row.key, now) == nil, !agenda.isThrottled(row.key) else { return false }
        // A new file is announced first. Exceptions: a file whose name is taken, and a file of a package, since nothing
        // of a package is announced before all of it is uploaded.
        guard row.dirty.contains(.created) else { return true }
        return try index.read { reader in
            if try CloudKnowledge(reader: reader).comesWithContent(row) { return true }
            var finder = PackageFinder(reader, index)
            return try !finder.packages(changedBy: row).isEmpty
        }
    }

    /// Uploads a file's content. Records the result in `PendingContents` or in `problems`.
    func upload(_ row: ItemRow) async {
        defer {
            uploads.withLock { _ = $0.uploading.remove(row.key) }
            transfers.end(row.key)
            agenda.happened(.uploadEnded)
        }
        do {
            try await uploadContent(of: row)
            problems.clear(.upload, of: row.key)
        } catch {
            let error = UbiquityError.from(error)
            guard error.code != .cancelled else { return }
            logger.info("cannot upload", metadata: ["item": "\(row.id)", "reason": "\(error)"])
            if error.isAboutConnection {
                _ = connection.failed(error)
                agenda.pauseAfterFailure(row.key)
                // The feed loop detects when the cloud is reachable again.
                agenda.happened(.feedIsNeeded)
            } else {
                problems.note(error, .upload, of: row.key)
            }
        }
    }

    private func uploadContent(of row: ItemRow) async throws {
        guard let content = row.content else { return }
        let file = try store.open(content, writable: false)
        try await quota.require(for: row)
        transfers.begin(row.key, total: row.size)
        agenda.happened(.transferAdvanced)
        let outcome = try await scan(file, of: row)
        guard case .stable(let scanned) = outcome,
            try await pool.run({ [contents] in try contents.isRecordedState(row, outcome) })
        else {
            return agenda.pauseBriefly([row.key], .changesDuringRead)
        }
        if try await pool.run({ try self.contents.markUnchanged(row, scanned.manifest) }) { return }
        do { try await send(scanned.manifest, of: row, from: file) } catch let error as UbiquityError
            where error.code == .invalid
        {
            // The file changed during the upload: the cloud refused a chunk whose bytes no longer match its id.
            let status = try file.status()
            guard status.size == scanned.size, status.changedAt == scanned.changedAt else {
                return agenda.pauseBriefly([row.key], .changesDuringRead)
            }
            throw error
        }
        // All is sent, but the file may have changed. The cloud verified the chunks on arrival. Size and change time
        // tell of the other bytes.
        let status = try file.status()
        guard status.size == scanned.size, status.changedAt == scanned.changedAt else {
            return agenda.pauseBriefly([row.key], .changesDuringRead)
        }
        contents.keep([row.key: PreparedContent(row, scanned.manifest, scanned.size)])
        agenda.resume(row.key)
    }

    /// Scans a file. A file found too large is not scanned again in the same state, since that may take hours.
    private func scan(_ file: FileDescriptor, of row: ItemRow) async throws -> ScanOutcome {
        if uploads.withLock({ $0.tooLarge[row.key] }) == row.generation {
            throw UbiquityError(.tooLarge, "the file has more chunks than a content may have")
        }
        do {
            return try await pool.run(asking: { [scanner] isCancelled in
                try scanner.scan(file, isCancelled: isCancelled)
            })
        } catch let error as UbiquityError where error.code == .tooLarge {
            uploads.withLock { state in
                if state.tooLarge.count >= SyncLimits.rememberedTooLarge { state.tooLarge = [:] }
                state.tooLarge[row.key] = row.generation
            }
            throw error
        }
    }

    /// Uploads the chunks that the cloud lacks, with several requests in flight.
    private func send(_ manifest: Manifest, of row: ItemRow, from file: FileDescriptor) async throws {
        let layout = try ChunkLayout(manifest)
        let missing = try await missingIndexes(manifest)
        transfers.advance(row.key, by: row.size - missing.reduce(0) { $0 + Int64(manifest[$1].length) })
        try await withThrowingTaskGroup(of: Void.self) { group in
            var inFlight = 0, remaining = missing[...], askedAt = timekeeper.uptime()
            while !remaining.isEmpty {
                if timekeeper.uptime() - askedAt > SyncLimits.chunksAskedAgain {
                    try await group.waitForAll()
                    inFlight = 0
                    askedAt = timekeeper.uptime()
                    remaining = try await missingIndexes(manifest)[...]
                    continue
                }
                while inFlight >= sender.lanes {
                    try await group.next()
                    inFlight -= 1
                }
                // Sized for the current speed of the connection.
                let batch = Self.batch(of: &remaining, manifest, upTo: sender.bytesPerRequest)
                try connection.requireAllowed()
                group.addTask { try await self.send(batch, layout, of: row.key, from: file) }
                inFlight += 1
            }
            try await group.waitForAll()
        }
    }

    private func send(_ batch: [Int], _ layout: ChunkLayout, of key: ItemKey, from file: FileDescriptor) async throws {
        let chunks = try await pool.run {
            try batch.map { index in
                let range = layout.range(of: index)
                return Chunk(
                    id: layout.manifest[index].id, bytes: try file.read(count: range.count, at: range.lowerBound))
            }
        }
        let size = chunks.reduce(0) { $0 + $1.bytes.count }
        try await upload(chunks, size)
        logger.debug("sent chunks", metadata: ["count": "\(chunks.count)", "bytes": "\(size)", "item": "\(key)"])
        transfers.advance(key, by: Int64(size))
        agenda.happened(.transferAdvanced)
    }

    /// The first index of each chunk that the cloud lacks.
    private func missingIndexes(_ manifest: Manifest) async throws -> [Int] {
        var places = [ChunkID: Int]()
        for (index, chunk) in manifest.enumerated() where places[chunk.id] == nil { places[chunk.id] = index }
        let ids = manifest.enumerated().filter { places[$1.id] == $0 }.map(\.element.id)
        var missing = [Int]()
        for start in stride(from: 0, to: ids.count, by: Limits.maximumChunksPerRequest) {
            let part = Array(ids[start..<min(start + Limits.maximumChunksPerRequest, ids.count)])
            missing += try await service.missingChunks(of: part).compactMap { places[$0] }
        }
        return missing.sorted()
    }

    /// Uploads chunks, `size` bytes in all.
    func upload(_ chunks: [Chunk], _ size: Int) async throws {
        do {
            try await retryWhileBusy { try await self.sender.paced(size) { try await self.service.upload(chunks) } }
        } catch let error as UbiquityError where error.code == .tooLarge && chunks.count > 1 {
            // A proxy in between refuses requests of this size. It may accept smaller ones.
            sender.recordRefusal(of: size)
            for half in [chunks[..<(chunks.count / 2)], chunks[(chunks.count / 2)...]] {
                try await upload(Array(half), half.reduce(0) { $0 + $1.bytes.count })
            }
        }
    }

    /// Retries while the cloud is overloaded.
    private func retryWhileBusy(_ body: () async throws -> Void) async throws {
        for _ in 1..<SyncLimits.attemptsAtABusyCloud {
            do { return try await body() } catch let error as UbiquityError where error.code == .tooManyRequests {
                try await timekeeper.sleep(for: SyncLimits.restForABusyCloud)
                try connection.requireAllowed()
            }
        }
        try await body()
    }

    /// Removes the next chunks from `remaining`: up to `limit` bytes, or a single chunk.
    private static func batch(of remaining: inout ArraySlice<Int>, _ manifest: Manifest, upTo limit: Int) -> [Int] {
        var batch = [Int](), bytes = 0
        while let next = remaining.first, batch.isEmpty || bytes + manifest[next].length <= limit {
            batch.append(next)
            bytes += manifest[next].length
            remaining.removeFirst()
        }
        return batch
    }
}
