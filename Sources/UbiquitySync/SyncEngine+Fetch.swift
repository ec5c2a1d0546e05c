internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// Fetches a download's chunks: from this device first, then from the cloud.
extension SyncEngine {
    /// Starts lanes for the download, up to the limit.
    func startLanes(_ download: Download) {
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
                    if download.isBackground { noteBackgroundEnd() }
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
            noteFailure(of: download, UbiquityError.from(error).ofContent)
        }
        progress.fire()
    }

    /// Shows users why the content cannot be downloaded. If the cloud refuses this device, the feed loop asks again at
    /// once, since it tracks whether the device is signed in.
    func show(_ error: UbiquityError, of key: ItemKey) {
        problems.show(error, .download, of: key)
        if error.code == .signedOut { feedSignal.fire() }
    }

    private func noteFailure(of download: Download, _ error: UbiquityError) {
        // A version's content belongs to no item. Only its reader gets the error.
        if error.code != .cancelled, !versionContents.isOne(download.content.id) {
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
        if let row = try index.row(key: download.key) { try dropPartial(row, download.content.id) }
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
                self.progress.fire()
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

    private func finish(_ download: Download) async throws {
        // A package's new content is not shown yet.
        if download.isReplacement, try await pool.run(evenIfCancelled: true, { try self.stage(download) }) {
            return noteCome(download)
        }
        if download.isBackground, openItems?.mayBeUsed(download.key) ?? false { noteBackgroundEnd() }
        // A client that edits the old content saves it first, so that the edit becomes a conflict and is not lost.
        let done = download.isReplacement ? try await openItems?.prepare(for: [.content(download.key)]) : nil
        defer { done?() }
        let content = download.content
        let dropped = try await pool.run(evenIfCancelled: true) { () -> [ContentID] in
            guard download.isReplacement else { return try self.finishPlaceholder(download.key, content) }
            return try self.stage(download) ? [] : try self.finishReplacement(download)
        }
        noteCome(download)
        discard(dropped)
    }

    private func noteCome(_ download: Download) {
        downloads.remove(download)
        download.wakeReaders()
        problems.clear(.download, of: download.key)
        logger.debug("downloaded", metadata: ["item": "\(download.key)"])
        progress.fire()
    }

    func finishPlaceholder(_ key: ItemKey, _ content: PartialContent) throws -> [ContentID] {
        try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: key), row.content == content.id,
                row.contentState == .partial
            else {
                // The item was deleted or got a newer version meanwhile, and programs that have it open read on to its
                // end. Or it was finished before (`finishIfComplete`) and perhaps written since.
                return []
            }
            try content.finish(modifiedAt: row.modifiedAt)
            var next = row
            next.contentState = .complete
            next.flags.insert(.keptCurrent)
            next.flags.remove(.downloadRequested)
            try transaction.update(next, before: row)
            try transaction.setLocations(content.manifest, in: content.id)
            transaction.note(.content, before: row, after: next)
            var settler = settler(transaction)
            try settler.settle(row.id)
            return settler.dropped
        }
    }

    /// Replaces the old content with the new one, unless the file has changed here meanwhile.
    private func finishReplacement(_ download: Download) throws -> [ContentID] {
        let content = download.content
        return try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: download.key), row.contentState == .complete, !row.isWriting,
                !row.dirty.contains(.content), !row.isDeleted, let remote = try transaction.remote(id: row.id),
                remote.content?.version == download.version
            else { return [content.id] }
            let new = StagedContent(id: row.id, content: content, version: download.version)
            try exchange(row, remote, new, transaction)
            var settler = settler(transaction)
            try settler.settle(row.id)
            return row.content.map { [$0] } ?? []
        }
    }

    /// Gives the item the new content under a new inode number. The caller removes the old backing file.
    func exchange(
        _ row: ItemRow, _ remote: RemoteItem, _ new: StagedContent, _ transaction: IndexTransaction
    ) throws {
        let content = new.content
        try content.finish(modifiedAt: remote.modifiedAt)
        var next = row
        next.ino = UInt64(transaction.newNumber())
        next.content = content.id
        next.version = new.version
        next.size = content.size
        next.flags.insert(.keptCurrent)
        next.flags.remove(.downloadRequested)
        if !row.dirty.contains(.times) {
            next.modifiedAt = remote.modifiedAt
            next.createdAt = remote.createdAt
        }
        next.changedAt = timekeeper.now()
        if !configuration.trustsPrivileges { next.dropPrivileges() }
        if let old = row.content { try transaction.forgetContent(old) }
        try transaction.update(next, before: row)
        try transaction.setContent(
            ContentRecord(
                content: content.id, version: new.version, size: content.size, manifest: content.manifest,
                unsyncedBoot: configuration.boot))
        try transaction.setLocations(content.manifest, in: content.id)
        transaction.note(.replaced, before: row, after: next)
        try transaction.noteOtherNames(of: next)
    }
}
