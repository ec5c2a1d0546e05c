internal import Logging
package import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Fills placeholders for the programs that open them: begins, fills and releases their contents. Records what people
/// want on this device: requested and pinned items.
///
/// It holds nothing: the table of downloads has the state. The file system calls it through `Materializer`. It knows
/// the other rooms of Fetch.
package struct Downloader: SyncRoom, Materializer {
    package let context: SyncContext
    let downloads: DownloadTable
    let lanes: DownloadLanes
    let opener: DownloadOpener
    let background: BackgroundDownloads
    let versionContents: VersionContents

    private var placement: ContentPlacement { ContentPlacement(context: context) }

    package func begin(_ key: ItemKey) async throws -> PartialContent {
        let download: Download
        do { download = try await opener.openedDownload(key) } catch {
            let error = UbiquityError.from(error).ofContent
            lanes.show(error, of: key)
            throw error
        }
        download.addOpener()
        downloads.keep(download)
        lanes.start(download)
        background.readAhead(of: key)
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
        try await download.wait(for: range) { lanes.start(download) }
    }

    package func release(_ content: PartialContent) {
        discard(versionContents.release(content))
        guard let download = downloads.download(with: content.id) else { return }
        download.removeOpener()
        // A lane without wanted chunks ends. Until then the download remains in the table.
        lanes.retire(download)
    }

    package func finishIfComplete(_ key: ItemKey) throws {
        guard let download = downloads.download(of: key), !download.isReplacement, download.content.isComplete else {
            return
        }
        try finishIfComplete(download.content, of: key)
    }

    package func finishIfComplete(_ content: PartialContent, of key: ItemKey) throws {
        if content.isComplete { discard(try placement.finishPlaceholder(key, content)) }
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
        agenda.happened(.downloadWasRequested)
    }

    /// Records contents that are complete by now. Call it before querying a folder's totals.
    package func finishDownloads() {
        for download in downloads.all where download.content.isComplete {
            // On a full disk the status remains as it was.
            try? finishIfComplete(download.key)
        }
    }

    // MARK: Pins

    /// - Returns: whether the pin changed.
    @discardableResult
    package func setPinned(_ key: ItemKey, _ pinned: Bool) throws -> Bool {
        let hasChanged = try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: key), !row.isDeleted else {
                throw UbiquityError(.notFound, "the item is gone")
            }
            var next = row
            if pinned { next.flags.insert(.pinned) } else { next.flags.remove(.pinned) }
            guard next != row else { return false }
            try transaction.update(next, before: row)
            transaction.note(.attributes, before: row, after: next)
            return true
        }
        agenda.happened(.downloadWasRequested)
        return hasChanged
    }

    /// Pins or unpins all items of a folder, many in one commit. Skips removed items.
    package func setPinned(_ keys: [ItemKey], _ pinned: Bool) throws {
        try context.changeFlags(of: keys) { row in
            if pinned { row.flags.insert(.pinned) } else { row.flags.remove(.pinned) }
        }
        agenda.happened(.downloadWasRequested)
    }
}
