internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// The download loop: fetches contents that no program waits for. These are newer versions of downloaded files, pinned
// and requested items, and with the eager policy everything.
extension SyncEngine {
    func runDownloads() async {
        while !Task.isCancelled {
            await downloadSignal.wait(atMost: timeToNextDownload(), timekeeper)
            guard !Task.isCancelled else { return }
            await restAfterClose()
            do {
                try await pool.run { try self.settleWaiting() }
                guard !connection.isPaused, connection.isOnline else { continue }
                try await startWantedDownloads()
            } catch {
                guard !Task.isCancelled else { return }
                logger.warning("cannot look for downloads", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Pauses after a close, since programs close one file after another. Each look commits what the index has
    /// gathered. Without the pause, a program that writes many files waited for this loop at every second close
    /// (measured).
    private func restAfterClose() async {
        let hasClosed = hasClosed.withLock { hasClosed in
            defer { hasClosed = false }
            return hasClosed
        }
        if hasClosed { try? await timekeeper.sleep(for: SyncLimits.quiet) }
    }

    private func timeToNextDownload() -> Duration {
        let now = timekeeper.now()
        guard let due = problems.nextRetry(.download, after: now) else { return SyncLimits.pollInterval }
        return min(.nanoseconds(due.nanoseconds - now.nanoseconds), SyncLimits.pollInterval)
    }

    /// Places records that waited for a writer's close or for a name.
    private func settleWaiting() throws {
        try showReadyPackages()
        // This runs at each close, and the usual answer "none" must not cost a commit.
        guard try index.peek({ try !$0.records(.waiting, limit: 1).isEmpty }) else { return }
        let dropped = try index.write(.remote) { transaction in
            var settler = settler(transaction)
            try settler.settleAll(limit: SyncLimits.settleBatch)
            return settler.dropped
        }
        discard(dropped)
    }

    private func startWantedDownloads() async throws {
        let background = downloads.all.filter(\.isBackground)
        // A complete content that waits for a client's claim takes no slot of running downloads. A limit bounds these
        // too.
        let room = min(
            SyncLimits.concurrentDownloads - background.count { !$0.content.isComplete },
            SyncLimits.waitingReplacements - background.count)
        guard room > 0 else { return }
        let wanted = try await pool.run { try self.wantedDownloads(room) }
        for row in wanted {
            downloads.runLane { await self.downloadInBackground(row) }
        }
    }

    /// The next items to download, at most `room`: newer versions of local contents first, then other wanted contents
    /// in order of age.
    private func wantedDownloads(_ room: Int) throws -> [ItemRow] {
        var result = try index.read { reader in
            // An item that waits for its name may have a newer content too.
            try [SettlingState.awaitingContent, .waiting].flatMap { state in
                try reader.records(state, limit: SyncLimits.settleBatch).compactMap { id in
                    try reader.row(id: id).flatMap { try self.awaitsReplacement($0, reader) ? $0 : nil }
                }
            } + wantedByPackages(reader, limit: room)
        }
        var room = Room(rows: room, bytes: try space.eagerSpace())
        var scan = wantedScan.withLock { $0 }
        var isAnew = scan.isAtBeginning
        while result.count < room.rows {
            if let key = scan.next() {
                if let row = try index.read({ try self.placeholder(key, $0) }), room.takes(row) { result.append(row) }
                continue
            }
            let start = scan.position, bytes = room.bytes
            scan.add(try index.read { try $0.wanted(eager: bytes, after: start, limit: SyncLimits.rowsPerRead) })
            guard scan.isAtBeginning else { continue }
            // The end is reached. Start once from the beginning, for items that were skipped.
            if isAnew { break }
            isAnew = true
        }
        wantedScan.withLock { [scan] in $0 = scan }
        return Array(result.prefix(room.rows))
    }

    /// How many downloads may begin, and how many bytes of items that only the eager policy wants.
    private struct Room {
        let rows: Int
        var bytes: Int64

        mutating func takes(_ row: ItemRow) -> Bool {
            if row.isAskedFor { return true }
            guard row.size <= bytes else { return false }
            bytes -= row.size
            return true
        }
    }

    /// The item's row, if its content is still missing and can be fetched now.
    func placeholder(_ key: ItemKey, _ reader: IndexReader) throws -> ItemRow? {
        guard let row = try reader.row(key: key), row.kind == .file, row.contentState != .complete, !row.isDeleted,
            try canDownload(row, reader), try !reader.isRecord(row.id, .awaitingPackage)
        else { return nil }
        return row
    }

    /// Wakes the download loop when background downloads have ended and slots are free. It starts several at a time,
    /// because each search for them costs time.
    func noteBackgroundEnd() {
        let running = downloads.all.count { $0.isBackground && !$0.content.isComplete }
        if running <= SyncLimits.concurrentDownloads / 2 { downloadSignal.fire() }
    }

    func awaitsReplacement(_ row: ItemRow, _ reader: IndexReader) throws -> Bool {
        guard row.kind == .file, row.contentState == .complete, !row.isWriting, !row.isDeleted,
            !row.dirty.contains(.content)
        else { return false }
        return try canDownload(row, reader)
    }

    /// Whether the cloud has a content for the row that is not here and can be fetched now.
    private func canDownload(_ row: ItemRow, _ reader: IndexReader) throws -> Bool {
        guard !problems.isHeld(.download, of: row.key), downloads.download(of: row.key)?.isBackground != true,
            let content = try reader.remote(id: row.id)?.content
        else { return false }
        return content.isAvailable && (row.contentState != .complete || content.version != row.version)
    }

    func downloadInBackground(_ row: ItemRow) async {
        do {
            let coming = try await bytesToCome(row)
            let floor = space.floor.bytes(for: row, size: coming.size)
            let download = try await space.withSpace(for: coming.missing, above: floor) {
                let download = row.contentState == .complete
                    ? try await beginReplacement(row) : try await openedDownload(row.key)
                download.setBackground()
                return download
            }
            startLanes(download)
        } catch {
            let error = UbiquityError.from(error)
            guard error.code != .cancelled, error.code != .stale else { return }
            logger.info("cannot begin a download", metadata: ["item": "\(row.id)", "reason": "\(error)"])
            problems.note(error, .download, of: row.key)
        }
    }

    /// - Returns: the size of the content to download, and its missing bytes.
    private func bytesToCome(_ row: ItemRow) async throws -> (size: Int64, missing: Int64) {
        try await pool.run { [index, downloads, store] in
            if row.contentState == .complete {
                let size = try index.read { try $0.remote(id: row.id) }?.content?.size ?? row.size
                return (size, size)
            }
            // Present bytes already have their space, also those of an earlier run.
            if let download = downloads.download(of: row.key) {
                return (row.size, row.size - download.content.presentBytes)
            }
            let status = try row.content.flatMap { try store.status(of: $0) }
            return (row.size, max(0, row.size - (status?.blocks ?? 0) * 512))
        }
    }

    /// A download beside the local content, which it replaces when it is complete.
    private func beginReplacement(_ row: ItemRow) async throws -> Download {
        let beginning = downloads.beginning(row.key, unused: { self.retire($0) }) {
            defer { self.downloads.ended(beginning: row.key) }
            return try await self.makeReplacement(row)
        }
        return try await beginning.wait()
    }

    private func makeReplacement(_ row: ItemRow) async throws -> Download {
        let remote = try await pool.run { [index] in try index.read { try $0.remote(id: row.id) } }
        guard let known = remote?.content else { throw UbiquityError(.stale, "the item is gone") }
        if let running = downloads.download(of: row.key), running.version == known.version { return running }
        let manifest = try await manifest(of: known)
        return try await pool.run { [self] in
            try space.makeSpace(for: known.size)
            let partial = try newContent(manifest, size: known.size)
            let download = Download(key: row.key, version: known.version, content: partial, isReplacement: true)
            downloads.add(download)
            return download
        }
    }
}
