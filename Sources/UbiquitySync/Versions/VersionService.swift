internal import Logging
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Lists the versions of an item: unresolved conflicts from the index, earlier versions from the cloud.
///
/// It holds the lists that the cloud has sent. The file system and the commands call it. `VersionDownloads` has the
/// contents.
package final class VersionService: SyncRoom {
    package let context: SyncContext
    private let lists = VersionLists()

    private let appVersions: AppVersions

    init(_ context: SyncContext, _ appVersions: AppVersions) {
        self.context = context
        self.appVersions = appVersions
    }

    /// All versions of an item except the current one and those with a pending decision. Unresolved conflicts come from
    /// the index, earlier versions from the cloud, newest first.
    /// - Throws: no error for an unreachable cloud: the known versions are returned then.
    package func otherVersions(of item: ItemID) async throws -> [RemoteVersion] {
        let others = try await cloudVersions(of: item)
        guard !appVersions.isEmpty else { return others }
        let own = try await pool.run { try self.ownVersions(of: item) }
        return (others + own).sorted { a, b in
            // Conflicts come first, as the cloud lists them.
            if (a.kind == .conflict) != (b.kind == .conflict) { return a.kind == .conflict }
            return a.isListed(before: b)
        }
    }

    /// The versions that programs on this device have added.
    private func ownVersions(of item: ItemID) throws -> [RemoteVersion] {
        guard let row = try index.read({ try $0.row(id: item) }) else { return [] }
        return appVersions.versions(of: row.key).map(\.listed)
    }

    private func cloudVersions(of item: ItemID) async throws -> [RemoteVersion] {
        let known = try await pool.run { try self.knownVersions(of: item) }
        if let known, known.isComplete { return known.versions }
        if lists.isPausing(now: timekeeper.uptime()) { return known?.versions ?? [] }
        do {
            try await askForVersions(of: item)
        } catch let error as UbiquityError where error.isAboutConnection || error.code == .notFound {
            if error.code == .timedOut { lists.recordNoAnswer(now: timekeeper.uptime()) }
            return known?.versions ?? []
        }
        return try await pool.run { try self.knownVersions(of: item) }?.versions ?? []
    }

    /// Every version of an item at the cloud, resolved ones included.
    package func allVersions(of item: ItemID) async throws -> [RemoteVersion] {
        try connection.requireAllowed()
        let versions = try await patiently { try await service.versions(of: item) }
        lists.recordAnswer()
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
        lists.keep(versions, of: item, at: revision, now: timekeeper.uptime())
    }

    /// The versions known without a request to the cloud. `isComplete` if no request is needed.
    package func knownVersions(of item: ItemID) throws -> (versions: [RemoteVersion], isComplete: Bool)? {
        let (remote, conflicts, decided) = try index.read { reader in
            (try reader.remote(id: item), try reader.conflicts(of: item), try reader.decidedVersions(of: item))
        }
        guard let remote else { return nil }
        let now = timekeeper.uptime()
        let fresh = lists.list(of: item, at: remote.revision, now: now)
        let list = fresh ?? lists.list(of: item, at: remote.revision, now: now, old: true) ?? []
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
}
