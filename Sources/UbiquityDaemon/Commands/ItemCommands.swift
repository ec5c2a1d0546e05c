import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Commands on items, with a result for each.
///
/// Results are produced one by one on demand. So a long list fills no memory, and the work ends when the client stops
/// reading.
struct ItemCommands: MountCommand {
    let parts: MountParts

    func status(_ paths: [String]) -> @Sendable () async throws -> ItemStatusLine? {
        let rest = Lock(paths[...])
        return { [self] in
            guard let path = rest.withLock({ $0.popFirst() }) else { return nil }
            do {
                return ItemStatusLine(report: try await pool.run { try self.report(path) })
            } catch {
                return ItemStatusLine(failure: Self.failed(path, error))
            }
        }
    }

    private func report(_ path: String) throws -> ItemReport {
        let row = try parts.tree.row(at: path)
        var report = try parts.index.read { reader in
            var report = try parts.look.report(of: row, at: path, reader)
            let waits = try engine.waits(of: row, reader)
            report.uploadWaits = waits.upload.map(TransferWait.init)
            report.downloadWaits = waits.download.map(TransferWait.init)
            return report
        }
        if row.key == .root, engine.heldDeletions > 0 { report.heldDeletions = engine.heldDeletions }
        return report
    }

    func evict(_ wanted: EvictRequest) -> @Sendable () async throws -> ItemResult? {
        let latest = wanted.unusedFor.map { Timestamp(seconds: parts.timekeeper.now().seconds - max($0, 0)) }
        let next = forEachItem(wanted.paths) { [self] _ in
            // The newest uses may be only in memory.
            if latest != nil { try await pool.run { [fileSystem = parts.fileSystem] in fileSystem.flushUses() } }
        } each: { [self] place in
            guard place.kind == .file else { return place.kind == .directory ? nil : .unchanged }
            if let latest, try await pool.run({ [self] in try isUsed(place.key, after: latest) }) { return nil }
            return try await parts.eviction.evict(place.key) ? .changed(bytes: place.size) : .unchanged
        }
        return { [self] in
            if let result = try await next() { return result }
            // An eviction is made to free space: free it before the list ends.
            try await pool.run { try self.engine.removeRetired() }
            return nil
        }
    }

    /// Whether a program on this device has used the file since.
    private func isUsed(_ key: ItemKey, after time: Timestamp) throws -> Bool {
        guard let row = try parts.index.row(key: key) else { return true }
        return row.usedAt > time
    }

    func setPinned(_ pinned: Bool, _ paths: [String]) -> @Sendable () async throws -> ItemResult? {
        // Bytes that this command causes to be downloaded.
        let coming = Lock<Int64>(0)
        return forEachItem(paths) { [self] place in
            try await pool.run {
                let hasChanged = try self.engine.downloader.setPinned(place.key, pinned)
                if pinned, place.kind == .file { try self.requireRoom(for: place.key, coming) }
                return hasChanged ? .changed(bytes: nil) : .unchanged
            }
        }
    }

    /// Throws `.noSpace` if a pinned content cannot be downloaded because the disk lacks space. The item stays pinned.
    private func requireRoom(for key: ItemKey, _ coming: Lock<Int64>) throws {
        guard let row = try parts.index.row(key: key), row.contentState != .complete else { return }
        guard let refusal = try engine.space.refusal(of: row, after: coming.withLock({ $0 })) else {
            return coming.withLock { $0 += row.size }
        }
        throw UbiquityError(
            .noSpace, "pinned, but its content is not downloaded: \(refusal.message)", remedy: refusal.remedy)
    }

    func download(_ paths: [String]) -> @Sendable () async throws -> ItemResult? {
        let patience = Patience(parts.timekeeper)
        let current = Lock(Set<ItemKey>())
        return forEachItem(paths) { [self] places in
            let files = places.filter { $0.kind == .file }
            let here = try await pool.run { Set(try files.lazy.map(\.key).filter { try self.isCurrent($0) }) }
            current.withLock { $0 = here }
            // Request all at once, so that the engine can download many in parallel; then wait for each.
            for place in files { try await engine.downloader.requestPersistently(place.key) }
        } each: { [self] place in
            guard place.kind == .file else { return place.kind == .directory ? nil : .unchanged }
            try await waitUntilHere(place.key, patience)
            return current.withLock { $0.contains(place.key) } ? .unchanged : .changed(bytes: place.size)
        }
    }

    /// Waits until the newest content is on this device. Throws the reason if it does not come.
    private func waitUntilHere(_ key: ItemKey, _ patience: Patience) async throws {
        // Checked again after each change of anything; the limit bounds one wait, not the whole.
        while try await !engine.wait(atMost: patience.left, until: { try await self.isHere(key) }) {
            // Its device is disconnected or slow, for an unknown time.
            if let error = try await pool.run({ [self] in try engine.status.whyNotHere(key) }) { throw error }
            patience.renew()
        }
        patience.renew()
    }

    private func isHere(_ key: ItemKey) async throws -> Bool {
        let status = try await pool.run { [self] in
            guard let row = try parts.index.row(key: key), !row.isDeleted else {
                throw UbiquityError(.notFound, "the item was deleted meanwhile")
            }
            return try engine.status(of: row)
        }
        if status.downloading == .current { return true }
        if let error = status.downloadingError, error.code != .notUploadedYet { throw error }
        // A newer version of a downloaded content needs no request: it is downloaded in any case.
        let isComing = try await pool.run { [self] in
            try status.downloading == .downloaded || engine.status.runningDownloads[key] != nil
                || !engine.status.wanted(of: [key], limit: 1).isEmpty
        }
        guard isComing else {
            // It may have arrived between the two checks.
            if try await pool.run({ [self] in try isCurrent(key) }) { return true }
            throw UbiquityError(
                .busy, "it was evicted again before its download began: by a command, or to free space")
        }
        if let absence = engine.connection.absence { throw absence }
        return false
    }

    private func isCurrent(_ key: ItemKey) throws -> Bool {
        guard let row = try parts.index.row(key: key), !row.isDeleted else { return false }
        return try engine.status(of: row).downloading == .current
    }

    // MARK: Folders

    /// The effect of a command on one item.
    private enum Effect {
        case unchanged
        /// Bytes downloaded or evicted; nil if the command moves none.
        case changed(bytes: Int64?)
    }

    /// One result for each item at and below the paths.
    /// - Parameters:
    ///   - prepare: gets all items of a path before the first is processed.
    ///   - each: does the work. Nil yields no result: a folder, whose items yield theirs.
    private func forEachItem(
        _ paths: [String], prepare: @escaping @Sendable ([ItemTree.Place]) async throws -> Void = { _ in },
        each: @escaping @Sendable (ItemTree.Place) async throws -> Effect?
    ) -> @Sendable () async throws -> ItemResult? {
        let rest = Lock((paths: paths[...], places: [ItemTree.Place]()[...]))
        return { [self] in
            while true {
                if let place = rest.withLock({ $0.places.popFirst() }) {
                    do {
                        switch try await each(place) {
                        case nil: continue
                        case .unchanged: return ItemResult(path: place.path, unchanged: true)
                        case .changed(let bytes): return ItemResult(path: place.path, bytes: bytes)
                        }
                    } catch let error as CancellationError {
                        throw error
                    } catch {
                        return Self.failed(place.path, error)
                    }
                }
                guard let path = rest.withLock({ $0.paths.popFirst() }) else { return nil }
                do {
                    let places = try await pool.run { try self.parts.tree.subtree(at: path) }
                    try await prepare(places)
                    // An empty folder, or a folder alone, is a result of its own.
                    if places.count == 1, places[0].kind == .directory {
                        let effect = try await each(places[0])
                        if case .changed(let bytes) = effect { return ItemResult(path: path, bytes: bytes) }
                        return ItemResult(path: path, unchanged: true)
                    }
                    rest.withLock { $0.places = places[...] }
                } catch {
                    return Self.failed(path, error)
                }
            }
        }
    }

    private static func failed(_ path: String, _ error: any Error) -> ItemResult {
        let error = error as? UbiquityError ?? UbiquityError(.io, "\(error)")
        return ItemResult(path: path, error: ControlFailure(error))
    }
}
