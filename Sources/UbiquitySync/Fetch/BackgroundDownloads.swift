internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// The download loop: fetches contents that no program waits for. These are newer versions of downloaded files, pinned
/// and requested items, and with the eager policy everything. It also fetches files ahead of a program that opens the
/// files of a folder in order.
///
/// It holds the position of the scan for wanted items, and the reading order of programs. The engine runs it, and the
/// downloader calls `readAhead`. It asks `CacheSpace` for space before each download.
final class BackgroundDownloads: SyncRoom {
    let context: SyncContext
    private let downloads: DownloadTable
    private let space: CacheSpace
    private let lanes: DownloadLanes
    private let opener: DownloadOpener
    private let packages: StagedPackages
    private let fetchable: FetchableContents
    /// Whether a writer has closed a file since the loop last looked.
    private let hasClosed = Lock(false)
    private let wantedScan = Lock(WantedScan())
    private let readingOrder = Lock(ReadingOrder())

    init(
        _ context: SyncContext, _ downloads: DownloadTable, _ space: CacheSpace, _ lanes: DownloadLanes,
        _ opener: DownloadOpener, _ packages: StagedPackages
    ) {
        self.context = context
        self.downloads = downloads
        self.space = space
        self.lanes = lanes
        self.opener = opener
        self.packages = packages
        fetchable = FetchableContents(context: context, downloads: downloads)
    }

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await agenda.wait(for: .downloads, atMost: agenda.timeToNextDownload())
            guard !Task.isCancelled else { return }
            await pauseAfterClose()
            do {
                try await pool.run { try self.placeWaiting() }
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
    private func pauseAfterClose() async {
        let hasClosed = hasClosed.withLock { hasClosed in
            defer { hasClosed = false }
            return hasClosed
        }
        if hasClosed { try? await timekeeper.sleep(for: SyncLimits.quiet) }
    }

    /// Places records that waited for a writer's close or for a name.
    private func placeWaiting() throws {
        try packages.showReadyPackages()
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
        let slots = min(
            SyncLimits.concurrentDownloads - background.count { !$0.content.isComplete },
            SyncLimits.waitingReplacements - background.count)
        guard slots > 0 else { return }
        let wanted = try await pool.run { try self.wantedDownloads(slots) }
        for row in wanted {
            downloads.runLane { await self.downloadInBackground(row) }
        }
    }

    /// The next items to download, at most `slots`: newer versions of local contents first, then other wanted contents
    /// in order of age.
    private func wantedDownloads(_ slots: Int) throws -> [ItemRow] {
        var result = try index.read { reader in
            // An item that waits for its name may have a newer content too.
            try [SettlingState.awaitingContent, .waiting].flatMap { state in
                try reader.records(state, limit: SyncLimits.settleBatch).compactMap { id in
                    try reader.row(id: id).flatMap { try self.fetchable.awaitsReplacement($0, reader) ? $0 : nil }
                }
            } + packages.wantedByPackages(reader, limit: slots)
        }
        var slotsLeft = Slots(rows: slots, bytes: try space.eagerSpace())
        var scan = wantedScan.withLock { $0 }
        var isAnew = scan.isAtBeginning
        while result.count < slotsLeft.rows {
            if let key = scan.next() {
                let row = try index.read { try self.fetchable.placeholder(key, $0) }
                if let row, slotsLeft.takes(row) { result.append(row) }
                continue
            }
            let start = scan.position, bytes = slotsLeft.bytes
            scan.add(try index.read { try $0.wanted(eager: bytes, after: start, limit: SyncLimits.rowsPerRead) })
            guard scan.isAtBeginning else { continue }
            // The end is reached. Start once from the beginning, for items that were skipped.
            if isAnew { break }
            isAnew = true
        }
        wantedScan.withLock { [scan] in $0 = scan }
        return Array(result.prefix(slotsLeft.rows))
    }

    /// How many downloads may begin, and how many bytes of items that only the eager policy wants.
    private struct Slots {
        let rows: Int
        var bytes: Int64

        mutating func takes(_ row: ItemRow) -> Bool {
            if row.isAskedFor { return true }
            guard row.size <= bytes else { return false }
            bytes -= row.size
            return true
        }
    }

    func downloadInBackground(_ row: ItemRow) async {
        do {
            let coming = try await bytesToCome(row)
            let floor = space.floor.bytes(for: row, size: coming.size)
            let download = try await space.withSpace(for: coming.missing, above: floor) {
                let download = row.contentState == .complete
                    ? try await opener.beginReplacement(row) : try await opener.openedDownload(row.key)
                download.setBackground()
                return download
            }
            lanes.start(download)
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

    /// Records that the last writer of a file has closed it. Call it before the loop is woken.
    func recordClose() { hasClosed.withLock { $0 = true } }

    // MARK: Reading ahead

    /// Called when a program has opened a placeholder. It runs in the background.
    func readAhead(of key: ItemKey) {
        guard connection.isOnline, !connection.isPaused else { return }
        downloads.runLane {
            do {
                for row in try await self.pool.run({ try self.filesAhead(of: key) }) {
                    self.downloads.runLane { await self.downloadInBackground(row) }
                }
            } catch {
                self.logger.debug("cannot fetch files ahead", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// The placeholders likely to be opened next: small ones, and only as many as fit without an eviction.
    private func filesAhead(of key: ItemKey) throws -> [ItemRow] {
        guard let opened = try index.row(key: key), let entry = opened.entry else { return [] }
        let span = readingOrder.withLock { $0.span(in: entry.parent) }
        let following = try index.read { try $0.children(of: entry.parent, after: entry.name, limit: span) }
        let count = readingOrder.withLock { order in
            order.opened(
                entry.name, in: entry.parent, upcoming: following.compactMap { $0.entry?.name }, now: timekeeper.now())
        }
        guard count > 0 else { return [] }
        var left = min(try space.freeSpace(), SyncLimits.aheadBytes)
        return try index.read { reader in
            var files = [ItemRow]()
            for row in following where row.size <= SyncLimits.aheadFileSize && row.size <= left {
                guard files.count < count, let file = try fetchable.placeholder(row.key, reader) else { continue }
                left -= row.size
                files.append(file)
            }
            return files
        }
    }
}
