internal import Logging
package import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// Placeholders: begin, fill and release their contents.
extension SyncEngine: Materializer {
    package func begin(_ key: ItemKey) async throws -> PartialContent {
        let download: Download
        do { download = try await openedDownload(key) } catch {
            let error = UbiquityError.from(error).ofContent
            show(error, of: key)
            throw error
        }
        download.addOpener()
        downloads.keep(download)
        startLanes(download)
        readAhead(of: key)
        return download.content
    }

    package func fill(_ content: PartialContent, _ range: Range<Int64>) async throws {
        if content.contains(range) { return }
        guard let download = downloads.download(with: content.id) else {
            if content.contains(range) { return }
            throw UbiquityError(.stale, "the download has ended", remedy: "open the file again")
        }
        do { try connection.requireAllowed() } catch {
            problems.show(.from(error), .download, of: download.key)
            throw error
        }
        try await download.wait(for: range) { startLanes(download) }
    }

    package func release(_ content: PartialContent) {
        discard(versionContents.release(content))
        guard let download = downloads.download(with: content.id) else { return }
        download.removeOpener()
        // A lane without wanted chunks ends. Until then the download remains in the table.
        retire(download)
    }

    package func finishIfComplete(_ key: ItemKey) throws {
        guard let download = downloads.download(of: key), !download.isReplacement, download.content.isComplete else {
            return
        }
        try finishIfComplete(download.content, of: key)
    }

    package func finishIfComplete(_ content: PartialContent, of key: ItemKey) throws {
        if content.isComplete { discard(try finishPlaceholder(key, content)) }
    }

    package func request(_ key: ItemKey) {
        downloads.runLane {
            do {
                try await self.requestPersistently(key)
            } catch {
                self.logger.info("cannot record a download request", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Records the request in the index, so that it survives the process, and wakes the download loop.
    package func requestPersistently(_ key: ItemKey) async throws { try await requestPersistently([key]) }

    package func requestPersistently(_ keys: [ItemKey]) async throws {
        try await pool.run { [self] in
            try context.changeFlags(of: keys) { row in
                if row.isPlaceholder { row.flags.formUnion([.downloadRequested, .broughtOnRequest]) }
            }
        }
        // No attempt is made while the cloud is unreachable, so record the reason here.
        let absence = connection.absence
        for key in keys {
            if let absence {
                problems.show(absence, .download, of: key)
            } else {
                problems.clear(.download, of: key)
            }
        }
        downloadSignal.fire()
    }

    /// Joins or begins the item's download.
    func openedDownload(_ key: ItemKey) async throws -> Download {
        // A download that has just finished may be of a version that the item no longer shows.
        if let download = downloads.download(of: key), !download.isReplacement,
            try index.row(key: key)?.content == download.content.id
        {
            return download
        }
        let beginning = downloads.beginning(key, unused: { self.retire($0) }) {
            defer { self.downloads.ended(beginning: key) }
            return try await self.beginDownload(key)
        }
        return try await beginning.wait()
    }

    /// Creates or reopens the backing file of the version that the item shows.
    private func beginDownload(_ key: ItemKey) async throws -> Download {
        try await waitForPackage(of: key)
        let (row, remote) = try await pool.run { [index] in
            try index.read { reader in
                let row = try reader.row(key: key)
                return (row, try row.flatMap { try reader.remote(id: $0.id) })
            }
        }
        // Not `.notFound`: the cloud uses that code for contents.
        guard let row, !row.isDeleted else { throw UbiquityError(.stale, "the item was deleted") }
        if row.contentState == .partial, let content = row.content,
            let resumed = try await pool.run(asking: { try self.resume(row, content, $0) })
        {
            return resumed
        }
        guard let version = row.version, let remote, let known = remote.content, known.version == version else {
            throw UbiquityError(
                .notFound, "the cloud does not have this content",
                remedy: "available when the device that made it reconnects")
        }
        let manifest = try await manifest(of: known)
        return try await pool.run { try self.makePartial(row, remote, known, manifest) }
    }

    private func makePartial(
        _ row: ItemRow, _ remote: RemoteItem, _ known: RemoteContent, _ manifest: Manifest
    ) throws -> Download {
        try space.makeSpace(for: known.size)
        let partial = try newContent(manifest, size: known.size)
        let content = partial.id
        do {
            try index.write(.remote) { transaction in
                guard let current = try transaction.row(key: row.key), current.contentState == .none,
                    current.version == known.version
                else { throw UbiquityError(.stale, "the item changed meanwhile", remedy: "open it again") }
                var next = current
                next.content = content
                next.contentState = .partial
                next.size = known.size
                next.usedAt = timekeeper.now()
                try transaction.update(next, before: current)
                try transaction.setContent(
                    ContentRecord(
                        content: content, version: known.version, size: known.size, manifest: manifest,
                        unsyncedBoot: configuration.boot))
                transaction.note(.attributes, before: current, after: next)
            }
        } catch {
            discard([content])
            throw error
        }
        return registered(Download(key: row.key, version: known.version, content: partial, isReplacement: false))
    }

    /// Creates an empty content for a download.
    func newContent(_ manifest: Manifest, size: Int64) throws -> PartialContent {
        let id = ContentID(try index.newContentNumber())
        let file = try store.create(id)
        do { return try PartialContent(id: id, file: file, manifest: manifest, size: size) } catch {
            discard([id])
            throw error
        }
    }

    /// Resumes a download of an earlier run. Nil if its file or its chunks are unknown.
    private func resume(
        _ row: ItemRow, _ content: ContentID, _ isCancelled: () -> Bool
    ) throws -> Download? {
        guard let record = try index.read({ try $0.contentRecord(content) }), let version = row.version,
            record.version == version, let file = try? store.open(content, writable: true)
        else {
            try dropPartial(row, content)
            return nil
        }
        let partial = try PartialContent(id: content, file: file, manifest: record.manifest, size: record.size)
        try partial.verifyExisting(isCancelled: isCancelled)
        return registered(Download(key: row.key, version: version, content: partial, isReplacement: false))
    }

    /// Turns an item with a partial content into a placeholder again. A content that is complete by now remains.
    /// - Returns: false if the content remains.
    @discardableResult
    func dropPartial(_ row: ItemRow, _ content: ContentID) throws -> Bool {
        let isAbandoned = try index.write(.remote) { transaction in
            guard let current = try transaction.row(key: row.key), current.content == content else {
                // Another document has the content now, because the item was saved over it.
                return try transaction.row(content: content) == nil
            }
            guard current.contentState == .partial else { return false }
            var next = current
            next.content = nil
            next.contentState = .none
            try transaction.update(next, before: current)
            try transaction.forgetContent(content)
            try transaction.reviewAwaitedContent(of: row.id)
            transaction.note(.attributes, before: current, after: next)
            return true
        }
        if isAbandoned { discard([content]) }
        return isAbandoned
    }

    private func registered(_ download: Download) -> Download {
        downloads.add(download)
        return download
    }
}
