internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// Fetching a download's chunks: from this device first, then from the cloud.
extension SyncEngine {
    /// Makes sure that the download is worked on.
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
                try await getMakingRoom(batch, download)
            }
            // A lane at its end says nothing of what another one met: only the complete content clears a problem.
            if !hasLeft { download.leaveLane() }
            // A reader that came since all were told has no lane any more.
            if Task.isCancelled { download.fail(DownloadTable.stopped) }
            retire(download)
        } catch {
            download.leaveLane()
            noteFailure(of: download, UbiquityError.from(error).ofContent)
        }
        progress.fire()
    }

    /// Tells people why the content does not come. What the cloud refuses this device is asked of it again at once by
    /// the feed, which knows where the device stands.
    func show(_ error: UbiquityError, of key: ItemKey) {
        problems.show(error, .download, of: key)
        if error.code == .signedOut { feedSignal.fire() }
    }

    private func noteFailure(of download: Download, _ error: UbiquityError) {
        // A version's content is no item's: who reads it is told.
        if error.code != .cancelled, !versionContents.isOne(download.content.id) {
            logger.info("cannot download", metadata: ["item": "\(download.key)", "reason": "\(error)"])
            if error.isAboutConnection, error.code != .timedOut {
                show(error, of: download.key)
            } else {
                problems.note(error, .download, of: download.key)
            }
        }
        // Waiters are told; background interest ends here and is taken up again by the download loop.
        if error.code == .noSpace { download.noteNoRoom() }
        download.clearBackground()
        download.fail(error)
        retire(download)
    }

    /// Forgets a download that nobody wants now. What has come is kept for the next time, if it can be.
    func retire(_ download: Download) {
        guard downloads.removeUnwanted(download) else { return }
        guard download.isForNothing else { return }
        downloads.runLane {
            do {
                try await self.pool.run(evenIfCancelled: true) { try self.abandon(download) }
            } catch {
                self.logger.warning("cannot give back a download's room", metadata: ["reason": "\(error)"])
            }
        }
    }

    private func abandon(_ download: Download) throws {
        guard !download.isReplacement else {
            guard try index.row(key: download.key)?.content != download.content.id else { return }
            return discard([download.content.id])
        }
        // Somebody may have taken it up again meanwhile.
        guard downloads.download(of: download.key) == nil else { return }
        if let row = try index.row(key: download.key) { try dropPartial(row, download.content.id) }
    }

    /// Gets chunks. On a full disk, what makes room for them may be about to be closed: who wants them waits for that.
    private func getMakingRoom(_ batch: [Int], _ download: Download) async throws {
        let bytes = batch.reduce(0) { $0 + Int64(download.content.manifest[$1].length) }
        fetchingBytes.withLock { $0 += bytes }
        defer { fetchingBytes.withLock { $0 -= bytes } }
        var pause = SyncLimits.firstWaitForRoom
        while true {
            let before = download.content.presentBytes
            do {
                try await get(batch, bytes, download)
                return download.noteRoom()
            } catch let error as UbiquityError where error.code == .noSpace {
                if download.content.presentBytes > before { pause = SyncLimits.firstWaitForRoom }
                var hasRoom = false
                while !hasRoom {
                    guard pause <= SyncLimits.lastWaitForRoom, download.isWanted,
                        try await pool.run({ try self.hasEvictable() })
                    else { throw error }
                    try await timekeeper.sleep(for: pause)
                    pause *= 2
                    hasRoom = try await pool.run { try self.makeRoomNow(for: bytes) }
                }
            }
        }
    }

    /// Gets chunks from wherever they are.
    private func get(_ batch: [Int], _ bytes: Int64, _ download: Download) async throws {
        let content = download.content
        let missing = try await pool.run {
            self.makeRoomAhead(of: bytes, download)
            return try self.buildLocally(batch, content)
        }
        if missing.count < batch.count { download.wakeReaders() }
        guard !missing.isEmpty else { return }
        try connection.requireAllowed()
        do {
            // A download without a waiting program is tried again later.
            try await patiently(while: { download.isInUse }) { try await self.fetchMissing(missing, download) }
        } catch let error as UbiquityError where error.code == .damaged {
            // Damaged on the way, or at the source? Once more tells.
            try await fetchMissing(missing, download)
        }
    }

    private func fetchMissing(_ indexes: [Int], _ download: Download) async throws {
        let still = indexes.filter { !download.content.contains(chunk: $0) }
        if !still.isEmpty { try await fetch(still, download) }
    }

    /// Repeats what a program waits for, within the network's limit.
    func patiently<R>(while isWanted: () -> Bool = { true }, _ body: () async throws -> R) async throws -> R {
        try await PatientRequest(connection: connection, timekeeper: timekeeper, random: random)
            .run(while: isWanted, body)
    }

    private func fetch(_ indexes: [Int], _ download: Download) async throws {
        let content = download.content
        let ids = indexes.map { content.manifest[$0].id }
        // Equal chunks of one content stand at several places: each arrival fills all of them.
        let places = Dictionary(grouping: indexes) { content.manifest[$0].id }
        do {
            try await service.fetchChunks(Array(Set(ids)).sorted { places[$0]![0] < places[$1]![0] }) { [pool] chunk in
                guard let wanted = places[chunk.id] else {
                    throw UbiquityError(.damaged, "the cloud sent a chunk that was not asked for")
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
            // The item is there: a program must not take it for deleted.
            throw UbiquityError(
                .damaged, "the cloud has lost a part of the content: \(error.message)",
                remedy: "'ubiquity doctor' on a device that has it sends it again")
        }
        logger.debug("fetched chunks", metadata: ["count": "\(places.count)", "item": "\(download.key)"])
        connection.succeeded()
    }

    /// Takes chunks that other contents of this device have.
    /// - Returns: those that none has.
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
        // A package's is not shown yet.
        if download.isReplacement, try await pool.run(evenIfCancelled: true, { try self.stage(download) }) {
            return noteCome(download)
        }
        if download.isBackground, openItems?.mayBeUsed(download.key) ?? false { noteBackgroundEnd() }
        // Who edits the old content saves it first: then that is a conflict, and no loss.
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
                // Deleted, or replaced by a newer version, while it came: those who have it open read it to its end.
                // Or finished before (`finishIfComplete`), and perhaps written to since.
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

    /// Puts the new content in the place of the old one, unless something was changed here meanwhile.
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

    /// The item has that content, under another inode, instead of the one that it has; the old backing file is the
    /// caller's.
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
