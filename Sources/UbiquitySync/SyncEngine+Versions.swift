internal import Logging
package import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// Versions other than the current ones: their list and their contents.
extension SyncEngine {
    /// All versions of an item except the current one and those with a pending decision. Unresolved conflicts come from
    /// the index, earlier versions from the cloud, newest first.
    /// - Throws: no error for an unreachable cloud: the known versions are returned then.
    package func otherVersions(of item: ItemID) async throws -> [RemoteVersion] {
        let known = try await pool.run { try self.knownVersions(of: item) }
        if let known, known.isComplete { return known.versions }
        if versionLists.isPausing(now: timekeeper.uptime()) { return known?.versions ?? [] }
        do {
            try await askForVersions(of: item)
        } catch let error as UbiquityError where error.isAboutConnection || error.code == .notFound {
            if error.code == .timedOut { versionLists.noteNoAnswer(now: timekeeper.uptime()) }
            return known?.versions ?? []
        }
        return try await pool.run { try self.knownVersions(of: item) }?.versions ?? []
    }

    /// Every version of an item at the cloud, resolved ones included.
    package func allVersions(of item: ItemID) async throws -> [RemoteVersion] {
        try connection.requireAllowed()
        let versions = try await patiently { try await service.versions(of: item) }
        versionLists.noteAnswer()
        try await pool.run { try self.keep(versions, of: item) }
        return versions
    }

    private func askForVersions(of item: ItemID) async throws {
        try connection.requireAllowed()
        guard connection.isOnline else { throw UbiquityError(.offline, "the cloud is unreachable") }
        try await withLimit(SyncLimits.versionsLimit) { _ = try await self.allVersions(of: item) }
    }

    private func keep(_ versions: [RemoteVersion], of item: ItemID) throws {
        guard let revision = try index.read({ try $0.remote(id: item) })?.revision else { return }
        versionLists.keep(versions, of: item, at: revision, now: timekeeper.uptime())
    }

    /// The versions known without a request to the cloud. `isComplete` if no request is needed.
    package func knownVersions(of item: ItemID) throws -> (versions: [RemoteVersion], isComplete: Bool)? {
        let (remote, conflicts, decided) = try index.read { reader in
            (try reader.remote(id: item), try reader.conflicts(of: item), try reader.decidedVersions(of: item))
        }
        guard let remote else { return nil }
        let now = timekeeper.uptime()
        let fresh = versionLists.list(of: item, at: remote.revision, now: now)
        let list = fresh ?? versionLists.list(of: item, at: remote.revision, now: now, old: true) ?? []
        // A restored version remains in the history.
        let history = remote.hasHistory ? list.filter { $0.kind == .history && decided[$0.id] != .remove } : []
        // If an item has very many conflicts, the record lists only some.
        let isWhole = remote.conflictCount <= Limits.maximumConflictsInRecord
        let known = Set(conflicts.map(\.id))
        let more = isWhole ? [] : list.filter {
            $0.kind == .conflict && decided[$0.id] == nil && !known.contains($0.id)
        }
        let others = (conflicts + more + history).sorted { $0.isListed(before: $1) }
        return (others, fresh != nil || !remote.hasHistory && isWhole)
    }

    /// Runs `body` for at most `limit`.
    /// - Throws: `.timedOut` if it takes longer. The body is then cancelled.
    private func withLimit(_ limit: Duration, _ body: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await body() }
            group.addTask { [timekeeper] in
                try await timekeeper.sleep(for: limit)
                throw UbiquityError(.timedOut, "the cloud did not list the versions in time")
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    // MARK: Contents

    /// Begins or joins the download of a version's content. Release it with `release`, like any download.
    package func begin(_ version: RemoteVersion) async throws -> PartialContent {
        if let content = versionContents.use(version.id) { return resumed(content, version) }
        let manifest = try await manifest(of: version.content)
        let made = try await pool.run { [self] in try newContent(manifest, size: version.content.size) }
        let content = versionContents.add(made, of: version.id)
        if content !== made { discard([made.id]) }
        return resumed(content, version)
    }

    /// Starts or joins the download of an incomplete content.
    private func resumed(_ content: PartialContent, _ version: RemoteVersion) -> PartialContent {
        guard !content.isComplete else { return content }
        if let running = downloads.download(with: content.id) {
            running.addOpener()
            startLanes(running)
            return content
        }
        // No item has this key, so the end of the download changes none.
        let download = Download(
            key: ItemKey(-content.id.rawValue), version: version.id, content: content, isReplacement: false)
        downloads.add(download)
        download.addOpener()
        startLanes(download)
        return content
    }

    /// Waits until a version is downloaded, and returns a copy of its content. The caller owns the copy.
    package func copy(_ version: RemoteVersion) async throws -> ContentID {
        let content = try await begin(version)
        defer { release(content) }
        try await fill(content, 0..<content.size)
        return try await pool.run { [index, store] in
            let id = ContentID(try index.newContentNumber())
            self.noteMade(id)
            do { _ = try store.duplicate(content.id, as: id) } catch {
                // On a full disk a part of the copy would remain.
                try? store.remove(id)
                throw error
            }
            return id
        }
    }

    /// Records a content under construction that no item references yet, so that no examination takes it for a
    /// leftover.
    package func noteMade(_ content: ContentID) {
        let isFull = made.withLock { made in
            made.insert(content)
            return made.count % SyncLimits.madeContents == 0
        }
        guard isFull else { return }
        // Contents that an item references by now, or that are removed, need not be tracked.
        let known = made.withLock { $0 }
        let over = known.filter { id in
            (try? store.status(of: id) == nil) ?? false || (try? index.read { try $0.row(content: id) } != nil) ?? false
        }
        made.withLock { $0.subtract(over.subtracting([content])) }
    }
}
