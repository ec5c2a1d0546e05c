internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Fetches the chunks of downloads in lanes: from this device first, then from the cloud. Completes a content when its
/// last chunk is here, and retires a download that nobody wants.
///
/// It holds nothing: the table of downloads has the lanes. The downloader and the background downloads start lanes. It
/// asks `CacheSpace` for space, and stages the contents of packages.
struct DownloadLanes: SyncRoom {
    let context: SyncContext
    let downloads: DownloadTable
    let space: CacheSpace
    let versionContents: VersionContents
    let packages: StagedPackages

    private var placement: ContentPlacement { ContentPlacement(context: context) }

    /// Starts lanes for the download, up to the limit.
    func start(_ download: Download) {
        while download.enterLane(limit: SyncLimits.fetchesInFlight) {
            guard downloads.runLane({ await self.runLane(download) }) else {
                download.leaveLane()
                return download.fail(DownloadTable.stopped)
            }
        }
    }

    private func runLane(_ download: Download) async {
        var hasLeft = false
        do {
            while !Task.isCancelled {
                if download.claimFinish() {
                    do { try await finish(download) } catch {
                        download.unclaimFinish()
                        throw error
                    }
                    if download.isBackground { wakeForFreeSlots() }
                    break
                }
                guard let batch = download.claimBatchOrLeave() else {
                    hasLeft = true
                    break
                }
                defer { download.release(batch) }
                try await getMakingSpace(batch, download)
            }
            // A finished lane knows nothing of the other lanes' errors: only the complete content clears a problem.
            if !hasLeft { download.leaveLane() }
            // A reader that arrived after `stopAll` failed all readers has no lane any more.
            if Task.isCancelled { download.fail(DownloadTable.stopped) }
            retire(download)
        } catch {
            download.leaveLane()
            recordFailure(of: download, UbiquityError.from(error).ofContent)
        }
        agenda.happened(.transferAdvanced)
    }

    /// Shows users why the content cannot be downloaded. If the cloud refuses this device, the feed loop asks again at
    /// once, since it tracks whether the device is signed in.
    func show(_ error: UbiquityError, of key: ItemKey) {
        problems.show(error, .download, of: key)
        if error.code == .signedOut { agenda.happened(.feedIsNeeded) }
    }

    private func recordFailure(of download: Download, _ error: UbiquityError) {
        // A version's content belongs to no item. Only its reader gets the error.
        if error.code != .cancelled, !versionContents.contains(download.content.id) {
            logger.info("cannot download", metadata: ["item": "\(download.key)", "reason": "\(error)"])
            if error.isAboutConnection, error.code != .timedOut {
                show(error, of: download.key)
            } else {
                problems.note(error, .download, of: download.key)
            }
        }
        // Fail the waiters and end the background download. The download loop begins it again later.
        if error.code == .noSpace { download.recordNoSpace() }
        download.clearBackground()
        download.fail(error)
        retire(download)
    }

    /// Forgets a download that nobody wants now. Its partial content is kept for the next time if possible.
    func retire(_ download: Download) {
        guard downloads.removeUnwanted(download) else { return }
        guard download.isForNothing else { return }
        downloads.runLane {
            do {
                try await self.pool.run(evenIfCancelled: true) { try self.abandon(download) }
            } catch {
                self.logger.warning("cannot free the space of a download", metadata: ["reason": "\(error)"])
            }
        }
    }

    private func abandon(_ download: Download) throws {
        guard !download.isReplacement else {
            guard try index.row(key: download.key)?.content != download.content.id else { return }
            return discard([download.content.id])
        }
        // Another reader may have resumed the download meanwhile.
        guard downloads.download(of: download.key) == nil else { return }
        if let row = try index.row(key: download.key) { try placement.dropPartial(row, download.content.id) }
    }

    /// Gets chunks. On a full disk, a file whose eviction would free space may be about to close, so a wanted download
    /// waits for that.
    private func getMakingSpace(_ batch: [Int], _ download: Download) async throws {
        let bytes = batch.reduce(0) { $0 + Int64(download.content.manifest[$1].length) }
        space.beginFetch(of: bytes)
        defer { space.endFetch(of: bytes) }
        var pause = SyncLimits.firstWaitForSpace
        while true {
            let before = download.content.presentBytes
            do {
                try await get(batch, bytes, download)
                return download.recordSpace()
            } catch let error as UbiquityError where error.code == .noSpace {
                if download.content.presentBytes > before { pause = SyncLimits.firstWaitForSpace }
                var hasSpace = false
                while !hasSpace {
                    guard pause <= SyncLimits.lastWaitForSpace, download.isWanted,
                        try await pool.run({ try self.space.hasEvictable() })
                    else { throw error }
                    try await timekeeper.sleep(for: pause)
                    pause *= 2
                    hasSpace = try await pool.run { try self.space.makeSpaceNow(for: bytes) }
                }
            }
        }
    }

    /// Gets chunks from this device or from the cloud.
    private func get(_ batch: [Int], _ bytes: Int64, _ download: Download) async throws {
        let content = download.content
        let missing = try await pool.run {
            self.space.makeSpaceAhead(of: bytes, download)
            return try self.buildLocally(batch, content)
        }
        if missing.count < batch.count { download.wakeReaders() }
        guard !missing.isEmpty else { return }
        try connection.requireAllowed()
        do {
            // The download loop retries a download that no program waits for.
            try await patiently(while: { download.isInUse }) { try await self.fetchMissing(missing, download) }
        } catch let error as UbiquityError where error.code == .damaged {
            // Fetch once more: the chunk may have been damaged in transit and not at the source.
            try await fetchMissing(missing, download)
        }
    }

    private func fetchMissing(_ indexes: [Int], _ download: Download) async throws {
        let still = indexes.filter { !download.content.contains(chunk: $0) }
        if !still.isEmpty { try await fetch(still, download) }
    }

    private func fetch(_ indexes: [Int], _ download: Download) async throws {
        let content = download.content
        let ids = indexes.map { content.manifest[$0].id }
        // A chunk can occur at several indexes of one content. Each arrival fills all of them.
        let places = Dictionary(grouping: indexes) { content.manifest[$0].id }
        do {
            try await service.fetchChunks(Array(Set(ids)).sorted { places[$0]![0] < places[$1]![0] }) { [pool] chunk in
                guard let wanted = places[chunk.id] else {
                    throw UbiquityError(.damaged, "the cloud sent a chunk that was not requested")
                }
                try await pool.run {
                    for index in wanted { _ = try content.store(index, chunk.bytes) }
                }
                download.wakeReaders()
                self.agenda.happened(.transferAdvanced)
            }
        } catch let error as UbiquityError where error.code == .invalid {
            throw UbiquityError(.damaged, error.message, at: error.place, remedy: error.remedy)
        } catch let error as UbiquityError where error.code == .notFound {
            // The item exists: a program must not take the error for its deletion.
            throw UbiquityError(
                .damaged, "the cloud has lost a part of the content: \(error.message)",
                remedy: "run 'ubiquity doctor' on a device that has the content: it uploads it again")
        }
        logger.debug("fetched chunks", metadata: ["count": "\(places.count)", "item": "\(download.key)"])
        connection.succeeded()
    }

    /// Copies chunks from other contents of this device.
    /// - Returns: the indexes of chunks that none has.
    private func buildLocally(_ batch: [Int], _ content: PartialContent) throws -> [Int] {
        var files: [ContentID: FileDescriptor] = [:]
        return try batch.filter { place in
            let locations = try index.read { try $0.locations(of: content.manifest[place]) }
            for location in locations where location.content != content.id {
                guard let file = files[location.content] ?? (try? store.open(location.content, writable: false))
                else { continue }
                files[location.content] = file
                if try content.store(place, from: file, at: location.position) { return false }
            }
            return !content.contains(chunk: place)
        }
    }

    // MARK: The end

    /// Wakes the download loop when background downloads have ended and slots are free. It starts several at a time,
    /// because each search for them costs time.
    private func wakeForFreeSlots() {
        let running = downloads.all.count { $0.isBackground && !$0.content.isComplete }
        if running <= SyncLimits.concurrentDownloads / 2 { agenda.happened(.downloadSlotsAreFree) }
    }

    private func finish(_ download: Download) async throws {
        // A package's new content is not shown yet.
        if download.isReplacement, try await pool.run(evenIfCancelled: true, { try self.packages.stage(download) }) {
            return recordArrival(of: download)
        }
        if download.isBackground, openItems?.mayBeUsed(download.key) ?? false { wakeForFreeSlots() }
        // A client that edits the old content saves it first, so that the edit becomes a conflict and is not lost.
        let done = download.isReplacement ? try await openItems?.prepare(for: [.content(download.key)]) : nil
        defer { done?() }
        let content = download.content
        let dropped = try await pool.run(evenIfCancelled: true) { () -> [ContentID] in
            guard download.isReplacement else { return try self.placement.finishPlaceholder(download.key, content) }
            return try self.packages.stage(download) ? [] : try self.placement.finishReplacement(download)
        }
        recordArrival(of: download)
        discard(dropped)
    }

    private func recordArrival(of download: Download) {
        downloads.remove(download)
        download.wakeReaders()
        problems.clear(.download, of: download.key)
        logger.debug("downloaded", metadata: ["item": "\(download.key)"])
        agenda.happened(.transferAdvanced)
    }
}
