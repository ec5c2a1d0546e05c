package import UbiquityCore
package import UbiquityIndex
internal import UbiquityContent
internal import UbiquitySystem
internal import UbiquityWire

/// Says what is transferred, what waits, and why: for an item, for a list of items, and for the whole container.
///
/// It holds nothing. The commands, the file system's attributes and the events call it. It reads the index, the table
/// of downloads and the context, and asks `CacheSpace` which contents fit.
package struct StatusReader: SyncRoom {
    package let context: SyncContext
    let fetch: FetchRooms

    private var downloads: DownloadTable { fetch.downloads }
    private var space: CacheSpace { fetch.space }

    package func status(of found: ItemRow) throws -> ItemSyncStatus {
        var row = found
        if row.contentState == .partial {
            // On a full disk the status remains as it was.
            try? fetch.downloader.finishIfComplete(row.key)
            row = try index.row(key: row.key) ?? row
        }
        let (remote, conflicts) = try index.read { (try $0.remote(id: row.id), try $0.conflictCount(of: row)) }
        return status(of: row, remote, conflicts: conflicts)
    }

    package func status(of row: ItemRow, _ remote: RemoteItem?, conflicts: Int) -> ItemSyncStatus {
        let download = row.kind == .file ? downloads.download(of: row.key) : nil
        let upload = transfers.upload(row.key)
        return ItemSyncStatus(
            downloading: downloading(row, remote),
            isDownloading: download?.hasLanes ?? false,
            percentDownloaded: percentDownloaded(row, download),
            downloadingError: downloadingError(row, remote),
            isDownloadRequested: row.flags.contains(.downloadRequested) || download?.isBackground == true,
            isUploading: upload != nil,
            percentUploaded: row.isUploaded(remote) ? 100 : upload?.percent ?? 0,
            uploadingError: problems.problem(.upload, of: row.key)?.error,
            conflictCount: conflicts,
            throttledUntil: row.dirty.isEmpty ? nil : throttle.restsUntil(row.key))
    }

    private func downloading(_ row: ItemRow, _ remote: RemoteItem?) -> ItemSyncStatus.Downloading {
        guard row.kind == .file else { return .current }
        guard row.contentState == .complete else {
            return row.size == 0 && row.content != nil ? .current : .notDownloaded
        }
        return row.isOutdated(remote) ? .downloaded : .current
    }

    func downloadingError(_ row: ItemRow, _ remote: RemoteItem?) -> UbiquityError? {
        downloadingError(row, remote, isWanted: row.isAskedFor || configuration.policy == .eager)
    }

    /// The reason why the content is not here, as long as it still applies.
    private func downloadingError(_ row: ItemRow, _ remote: RemoteItem?, isWanted: Bool) -> UbiquityError? {
        guard let error = problems.problem(.download, of: row.key)?.error else {
            guard isWanted, row.kind == .file, row.contentState != .complete else { return nil }
            return remote?.content?.whyNotHere
        }
        if error.code == .notUploadedYet, remote?.content?.isAvailable == true { return nil }
        return error.isAboutConnection && connection.isOnline && error.code != .timedOut ? nil : error
    }

    private func percentDownloaded(_ row: ItemRow, _ download: Download?) -> Double {
        if let download { return download.content.fractionPresent * 100 }
        return row.kind != .file || row.contentState == .complete ? 100 : 0
    }

    package func summary() throws -> SyncSummary {
        let disk = try spaceForWanted()
        let (position, dirty, unsent, actions, bytes, isSettled, isDue) = try index.read { reader in
            let dirty = try reader.dirtyCount()
            return (
                try reader.feedPosition(), dirty, dirty == 0 ? 0 : try reader.unsentCount(),
                try reader.versionActionCount(), try reader.dirtyBytes(),
                try [.waiting, .awaitingParent, .awaitingPackage].allSatisfy {
                    try reader.records($0, limit: 1).isEmpty
                },
                try isAnyDownloadDue(reader, disk)
            )
        }
        let active = downloads.all.filter(\.hasLanes)
        let state = feed.current
        let isIdle = dirty + actions == 0 && active.isEmpty && isSettled && !isDue && connection.isOnline
            && state.isCaughtUp && !state.mayHaveLost && !state.looksForLost && state.announced <= position.revision
        return SyncSummary(
            connection: connection.status, revision: position.revision, pendingUploads: unsent + actions,
            pendingUploadBytes: bytes, activeDownloads: active.count,
            pendingDownloadBytes: active.reduce(0) { $0 + $1.content.size - $1.content.presentBytes }, isIdle: isIdle,
            lacksSpace: try isIdle && disk != nil && hasUnfit())
    }

    /// The space on the disk, if a download failed for lack of it. Otherwise nil, since measuring the disk is costly.
    private func spaceForWanted() throws -> DiskSpace? { try problems.areAny(.noSpace) ? space.diskSpace() : nil }

    /// Whether a content is wanted here that the disk may have space for.
    private func isAnyDownloadDue(_ reader: IndexReader, _ disk: DiskSpace?) throws -> Bool {
        var last = ItemKey(0)
        while true {
            let rows = try reader.wanted(eager: 0, after: last, limit: disk == nil ? 1 : SyncLimits.rowsPerRead)
            guard let end = rows.last else { break }
            // A placeholder of another cloud stays wanted, and nothing can be downloaded for it.
            let isDue = try rows.contains { try !lacksSpace($0, size: $0.size, disk) && !reader.isOfAnotherCloud($0) }
            guard !isDue else { return true }
            last = end.key
        }
        let replaced = try reader.records(.awaitingContent, limit: disk == nil ? 1 : SyncLimits.settleBatch)
        return try !replaced.allSatisfy { id in
            guard let row = try reader.row(id: id), let content = try reader.remote(id: id)?.content
            else { return false }
            return lacksSpace(row, size: content.size, disk)
        }
    }

    /// Whether any content is wanted here. Call it when no download is due.
    private func hasUnfit() throws -> Bool {
        try index.read { reader in
            try !reader.wanted(eager: 0, after: ItemKey(0), limit: 1).isEmpty
                || !reader.records(.awaitingContent, limit: 1).isEmpty
        }
    }

    private func lacksSpace(_ row: ItemRow, size: Int64, _ disk: DiskSpace?) -> Bool {
        guard let disk, problems.problem(.download, of: row.key)?.error.code == .noSpace else { return false }
        return !disk.fits(row, size: size)
    }

    /// Whether the item's download waits for space on the disk.
    package func lacksSpace(_ key: ItemKey) throws -> Bool {
        guard let disk = try spaceForWanted(), let (row, content) = try index.read({ reader in
            try reader.row(key: key).map { ($0, try reader.remote(id: $0.id)?.content) }
        }) else { return false }
        return lacksSpace(row, size: content?.size ?? row.size, disk)
    }

    /// Items to be downloaded in the background, whether or not a download is in progress, and their bytes.
    package func waitingDownloads() throws -> (items: Int, bytes: Int64) {
        let eager = try space.eagerSpace()
        return try index.read { try $0.wantedTotal(eager: eager) }
    }

    /// The first `limit` of these items that are to be downloaded in the background.
    package func wanted(of keys: some Sequence<ItemKey>, limit: Int) throws -> [ItemKey] {
        let eager = try space.eagerSpace()
        return try index.read { reader in
            var wanted = [ItemKey]()
            for key in keys where wanted.count < limit {
                if try reader.isWanted(key, eager: eager) { wanted.append(key) }
            }
            return wanted
        }
    }

    /// Wanted items whose contents other devices have not uploaded yet, at most `limit`.
    package func awaited(limit: Int) throws -> [ItemKey] {
        let eager = try space.eagerSpace()
        return try index.read { try $0.awaited(eager: eager, limit: limit) }
    }

    /// Why the content of a wanted item is not downloaded, or nil if no reason is known.
    package func whyNotHere(_ key: ItemKey) throws -> UbiquityError? {
        guard let (row, remote) = try index.read({ reader in
            try reader.row(key: key).map { ($0, try reader.remote(id: $0.id)) }
        }) else { return nil }
        return downloadingError(row, remote, isWanted: true)
    }

    /// Why the item's upload and its download wait. Nil if they need not wait.
    func waits(
        of row: ItemRow, _ uploader: WaitFinder.Uploader, _ reader: IndexReader
    ) throws -> (upload: ItemWait?, download: ItemWait?) {
        let finder = WaitFinder(context, uploader, reader), remote = try reader.remote(id: row.id)
        let isArriving = row.kind == .file && downloads.download(of: row.key)?.hasLanes ?? false
        return (
            try finder.upload(of: row),
            try finder.download(
                of: row, isArriving: isArriving, unavailability: downloadingError(row, remote, isWanted: true))
        )
    }

    /// Pending uploads in order, at most `limit`, each with its problem and the end of its throttle.
    package func pendingUploads(
        limit: Int
    ) throws -> [(row: ItemRow, problem: TransferProblem?, restsUntil: Timestamp?)] {
        try index.read { try $0.unsentRows(limit: limit) }.map {
            ($0, problems.problem(.upload, of: $0.key), throttle.restsUntil($0.key))
        }
    }

    /// The throttled items, in no order.
    package var resting: [ItemKey] { throttle.resting }

    // MARK: Transfers in progress

    /// Waits until this device has read the whole container once, or the cloud proves unreachable, at most `limit`.
    package func awaitFirstListing(atMost limit: Duration) async {
        let end = timekeeper.uptime() + limit
        while !Task.isCancelled {
            let generation = progress.generation, left = end - timekeeper.uptime()
            guard left > .zero, connection.status.phase == .connecting || connection.isOnline else { return }
            guard await (try? pool.run({ [index] in try index.read { try $0.hasBeenCaughtUp() } })) == false else {
                return
            }
            await progress.wait(since: generation, atMost: left, timekeeper)
        }
    }

    /// The uploads in progress.
    package var runningUploads: [ItemKey: TransferProgress] { transfers.uploading }

    /// The downloads in progress.
    package var runningDownloads: [ItemKey: TransferProgress] {
        var result = [ItemKey: TransferProgress]()
        for download in downloads.all where download.hasLanes {
            result[download.key] = TransferProgress(
                doneBytes: download.content.presentBytes, totalBytes: download.content.size)
        }
        return result
    }

    /// The error of the item's last download, unless a later one succeeded.
    package func downloadProblem(of item: ItemKey) -> TransferProblem? { problems.problem(.download, of: item) }

    /// The failed transfers that wait for their next attempt.
    package var failedTransfers: [(item: ItemKey, direction: TransferDirection, problem: TransferProblem)] {
        problems.all
    }
}
