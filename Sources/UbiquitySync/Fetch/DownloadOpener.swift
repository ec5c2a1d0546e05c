internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Begins downloads, or joins the ones in progress: creates or reopens the backing file and enters it into the table.
///
/// It holds nothing. The downloader and the background downloads call it. The caller starts the lanes. It waits for
/// packages, so that an item is opened in one state of its package.
struct DownloadOpener: SyncRoom {
    let context: SyncContext
    let downloads: DownloadTable
    let space: CacheSpace
    let lanes: DownloadLanes
    let packages: StagedPackages

    private var placement: ContentPlacement { ContentPlacement(context: context) }

    /// Joins or begins the item's download.
    func openedDownload(_ key: ItemKey) async throws -> Download {
        // A download that has just finished may be of a version that the item no longer shows.
        if let download = downloads.download(of: key), !download.isReplacement,
            try index.row(key: key)?.content == download.content.id
        {
            return download
        }
        let beginning = downloads.beginning(key, unused: { self.lanes.retire($0) }) {
            defer { self.downloads.ended(beginning: key) }
            return try await self.beginDownload(key)
        }
        return try await beginning.wait()
    }

    /// Creates or reopens the backing file of the version that the item shows.
    private func beginDownload(_ key: ItemKey) async throws -> Download {
        try await packages.waitForPackage(of: key)
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
        let partial = try placement.newContent(manifest, size: known.size)
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

    /// Resumes a download of an earlier run. Nil if its file or its chunks are unknown.
    private func resume(
        _ row: ItemRow, _ content: ContentID, _ isCancelled: () -> Bool
    ) throws -> Download? {
        guard let record = try index.read({ try $0.contentRecord(content) }), let version = row.version,
            record.version == version, let file = try? store.open(content, writable: true)
        else {
            try placement.dropPartial(row, content)
            return nil
        }
        let partial = try PartialContent(id: content, file: file, manifest: record.manifest, size: record.size)
        try partial.verifyExisting(isCancelled: isCancelled)
        return registered(Download(key: row.key, version: version, content: partial, isReplacement: false))
    }

    /// A download beside the local content, which it replaces when it is complete.
    func beginReplacement(_ row: ItemRow) async throws -> Download {
        let beginning = downloads.beginning(row.key, unused: { self.lanes.retire($0) }) {
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
            let partial = try placement.newContent(manifest, size: known.size)
            let download = Download(key: row.key, version: known.version, content: partial, isReplacement: true)
            downloads.add(download)
            return download
        }
    }

    private func registered(_ download: Download) -> Download {
        downloads.add(download)
        return download
    }
}
