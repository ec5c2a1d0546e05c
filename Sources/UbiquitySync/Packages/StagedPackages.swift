internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// A downloaded content that is not shown yet, because other contents of its package are still being downloaded.
struct StagedContent: Sendable {
    var id: ItemID
    var content: PartialContent
    var version: VersionID
}

/// Packages that wait for contents. Their new contents are downloaded beside the shown ones and exchanged together, so
/// that a package shows one state.
///
/// It holds the complete contents that are not shown yet. They are lost with the process, and downloaded again. The
/// rooms of Fetch call it, and the uploader after a decision about a package. It knows `PackageClaims`.
final class StagedPackages: SyncRoom {
    let context: SyncContext
    private let claims: PackageClaims
    private let fetchable: FetchableContents
    /// Complete contents of packages that still show their older state.
    private let staged = Lock([ItemKey: StagedContent]())
    /// The missing item of each package, as of the last look.
    private let lacking = Lock([ItemKey: ItemID]())

    init(_ context: SyncContext, _ claims: PackageClaims, _ downloads: DownloadTable) {
        self.context = context
        self.claims = claims
        fetchable = FetchableContents(context: context, downloads: downloads)
    }

    /// Files of held packages whose newer content must be fetched now, at most `limit`. It runs each time contents
    /// arrive. So it skips staged files unread, and checks them for a newer version only when all are staged.
    func wantedByPackages(_ reader: IndexReader, limit: Int) throws -> [ItemRow] {
        let staged = self.staged.withLock { Dictionary($0.values.map { ($0.id, $0.version) }) { first, _ in first } }
        let held = try reader.records(.awaitingPackage, limit: .max)
        var result = [ItemRow]()
        for areStaged in [false, true] where result.isEmpty {
            for id in held where (staged[id] != nil) == areStaged {
                guard let item = try reader.remote(id: id), let row = try reader.row(id: id),
                    row.awaitsContent(of: item), staged[id] != item.content?.version,
                    try fetchable.awaitsReplacement(row, reader)
                else { continue }
                result.append(row)
                if result.count == limit { return result }
            }
        }
        return result
    }

    /// Whether a package keeps the content until it can show it.
    func isStaged(_ content: ContentID) -> Bool {
        staged.withLock { $0.values.contains { $0.content.id == content } }
    }

    /// Keeps a complete content until its package can show it.
    /// - Returns: false if the item is in no held package.
    func stage(_ download: Download) throws -> Bool {
        guard let row = try index.row(key: download.key),
            try index.read({ try $0.isRecord(row.id, .awaitingPackage) })
        else { return false }
        let old = staged.withLock { staged in
            defer {
                staged[download.key] = StagedContent(
                    id: row.id, content: download.content, version: download.version)
            }
            return staged[download.key]
        }
        discard(old.map { [$0.content.id] } ?? [])
        guard try !lacksAnother(than: row) else { return true }
        // The content is kept whether or not the package can be shown now. A later arrival tries again.
        do { try showReadyPackages() } catch {
            logger.warning("cannot show a package's new state yet", metadata: ["reason": "\(error)"])
        }
        return true
    }

    /// Whether the package still lacks the content that was missing at the last look. Then the package need not be
    /// examined, which matters after each of thousands of files.
    private func lacksAnother(than row: ItemRow) throws -> Bool {
        try index.read { reader in
            var finder = PackageFinder(reader, index)
            guard let package = try finder.package(of: row), let id = lacking.withLock({ $0[package] }), id != row.id,
                try reader.isRecord(id, .awaitingPackage), let item = try reader.remote(id: id),
                let other = try reader.row(id: id), other.awaitsContent(of: item)
            else { return false }
            return staged.withLock { $0[other.key]?.version != item.content?.version }
        }
    }

    /// Exchanges the contents of each package whose newer contents are all here, and shows its new state.
    ///
    /// Several threads may run this. It unstages the contents before any thread can see that the package is no longer
    /// held. Otherwise another thread would take them for unneeded and remove what the package shows.
    func showReadyPackages() throws {
        guard try index.peek({ try !$0.records(.awaitingPackage, limit: 1).isEmpty }) else { return dropAll() }
        // Usually no package is ready, and writers need not wait for that check.
        let ready = try index.read { try readyPackages($0) }
        let claims = ready.compactMap { package, exchanges -> (package: ItemKey, done: @Sendable () -> Void)? in
            // If no content is exchanged, no client must release anything, and a program that opens a file waits.
            guard exchanges, package != .root else { return (package, {}) }
            return self.claims.claim(package).map { (package, $0) }
        }
        guard !claims.isEmpty else { return }
        defer { for claim in claims { claim.done() } }
        let claimed = Set(claims.map(\.package))
        var taken = [ItemKey: StagedContent]()
        let (dropped, isAnyShown): ([ContentID], Bool)
        do {
            (dropped, isAnyShown) = try index.write(.remote) { transaction in
                try show(claimed, transaction, &taken)
            }
        } catch {
            stageAgain(taken)
            throw error
        }
        discard(dropped)
        // Fire only now: waiters for a package check again at each progress.
        if isAnyShown { agenda.happened(.packageIsShown) }
    }

    /// Packages whose new state is complete here and which have no local changes.
    private func readyPackages(_ reader: IndexReader) throws -> [(package: ItemKey, exchanges: Bool)] {
        guard try !reader.isFeedBehind() else { return [] }
        let changed = try reader.changedPackages(index)
        var ready = [(package: ItemKey, exchanges: Bool)](), lacking = [ItemKey: ItemID]()
        for (package, records) in try reader.heldPackages(index) where !changed.contains(package) {
            guard let exchanges = try exchanges(for: records, reader) else { continue }
            // Remember the last missing content: contents usually arrive in order, and in any other order it is among
            // the last to arrive.
            let last = staged.withLock { staged in
                exchanges.last { row, item in staged[row.key]?.version != item.content?.version }
            }
            lacking[package] = last?.0.id
            if last == nil { ready.append((package, !exchanges.isEmpty)) }
        }
        self.lacking.withLock { [lacking] in $0 = lacking }
        return ready.sorted { $0.package < $1.package }
    }

    private func show(
        _ packages: Set<ItemKey>, _ transaction: IndexTransaction, _ taken: inout [ItemKey: StagedContent]
    ) throws -> (dropped: [ContentID], isAnyShown: Bool) {
        guard try !transaction.isFeedBehind() else { return ([], false) }
        var settler = settler(transaction), dropped = [ContentID](), isAnyShown = false
        let changed = try transaction.changedPackages(index)
        for (package, records) in try transaction.heldPackages(index).sorted(by: { $0.key < $1.key }) {
            guard packages.contains(package), !changed.contains(package),
                let exchanges = try unstageExchanges(for: records, transaction)
            else { continue }
            for (row, _, staged) in exchanges { taken[row.key] = staged }
            for (row, item, staged) in exchanges {
                try ContentPlacement(context: context).exchange(row, item, staged, transaction)
                if let old = row.content { dropped.append(old) }
            }
            try settler.release(records)
            isAnyShown = true
        }
        try settler.settleAll(limit: SyncLimits.settleBatch)
        return (dropped + settler.dropped, isAnyShown)
    }

    /// The files whose contents a package exchanges, or nil if one is being written.
    private func exchanges(for records: [ItemID], _ reader: IndexReader) throws -> [(ItemRow, RemoteItem)]? {
        var wanted = [(ItemRow, RemoteItem)]()
        for id in records {
            guard let item = try reader.remote(id: id), let row = try reader.row(id: id), row.awaitsContent(of: item)
            else { continue }
            guard !row.isWriting else { return nil }
            wanted.append((row, item))
        }
        return wanted
    }

    /// Takes the contents that a package exchanges. Nil if one is missing or being written.
    private func unstageExchanges(
        for records: [ItemID], _ transaction: IndexTransaction
    ) throws -> [(ItemRow, RemoteItem, StagedContent)]? {
        guard let wanted = try exchanges(for: records, transaction.reader) else { return nil }
        return staged.withLock { staged in
            var result = [(ItemRow, RemoteItem, StagedContent)]()
            for (row, item) in wanted {
                guard let content = staged[row.key], content.version == item.content?.version else { return nil }
                result.append((row, item, content))
            }
            for (row, _) in wanted { staged[row.key] = nil }
            return result
        }
    }

    /// Stages contents again whose exchange failed.
    private func stageAgain(_ taken: [ItemKey: StagedContent]) {
        let unneeded = staged.withLock { staged in
            taken.compactMap { key, content -> ContentID? in
                guard staged[key] == nil else { return content.content.id }
                staged[key] = content
                return nil
            }
        }
        discard(unneeded)
    }

    /// Removes contents whose package does not need them any more.
    func dropAll() {
        let unneeded = staged.withLock { staged in
            defer { staged = [:] }
            return staged.values.map(\.content.id)
        }
        discard(unneeded)
    }

    /// Waits until the item's package shows one state.
    func waitForPackage(of key: ItemKey) async throws {
        let isShown = try await wait(atMost: SyncLimits.packageWait) { [self] in
            let isHeld = try await pool.run { [index] in
                try index.read { reader in
                    try reader.row(key: key).map { try reader.isRecord($0.id, .awaitingPackage) } ?? false
                }
            }
            if isHeld {
                try connection.requireAllowed()
                // Without the cloud the missing contents cannot be downloaded.
                if let absence = connection.absence { throw absence }
                agenda.happened(.packageContentsAreWanted)
            }
            return !isHeld
        }
        guard isShown else {
            throw UbiquityError(.timedOut, "other files of the package are still being downloaded", remedy: "try again")
        }
    }
}
