internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Finds out why a transfer of an item waits. It reads the index, the agenda and the connection, and changes nothing.
///
/// The checks follow the uploader's own order: first the obstacles to all transfers, then the item's own, then those of
/// its package and its folder.
struct WaitFinder {
    /// State of the uploader that the context does not hold.
    struct Uploader {
        var deletionsOnHold: Int
        /// Whether a package's users are asked to save it.
        var isAsking: (ItemKey) -> Bool
    }

    private let context: SyncContext
    private let uploader: Uploader
    private let reader: IndexReader
    private let now: Timestamp

    /// Folders in folders that are examined for the reason why a folder waits.
    private static let deepestFolder = 32

    init(_ context: SyncContext, _ uploader: Uploader, _ reader: IndexReader) {
        self.context = context
        self.uploader = uploader
        self.reader = reader
        now = context.timekeeper.now()
    }

    private var agenda: Agenda { context.agenda }

    // MARK: Uploads

    /// Why the item's changes are not sent now. Nil if there are none, or if they are being sent.
    func upload(of row: ItemRow) throws -> ItemWait? {
        guard !row.dirty.isEmpty, !row.staysHere, context.transfers.upload(row.key) == nil else { return nil }
        return try network ?? obstacle(to: row, depth: 0) ?? ItemWait(.turn)
    }

    /// The reason that stops all transfers, if there is one.
    private var network: ItemWait? {
        let status = context.connection.status
        switch status.phase {
        case .paused: return ItemWait(.offlineOnRequest)
        case .signedOut: return ItemWait(.signedOut)
        case .connecting: return ItemWait(.network(nil))
        case .offline: return ItemWait(.network(status.reason.isEmpty ? nil : status.reason))
        case .online: return context.feed.isCaughtUp ? nil : ItemWait(.changesOfOthers)
        }
    }

    private func obstacle(to row: ItemRow, depth: Int) throws -> ItemWait? {
        if row.isDeleted, let wait = try deletion(of: row) { return wait }
        return try problem(of: row) ?? package(of: row) ?? pause(of: row) ?? name(of: row)
            ?? folder(of: row, depth: depth)
    }

    private func deletion(of row: ItemRow) throws -> ItemWait? {
        if uploader.deletionsOnHold > 0, try row.dirtyOrder > reader.confirmedDeletions() {
            return ItemWait(.deletionsOnHold(count: uploader.deletionsOnHold))
        }
        if let end = agenda.deletionBurstEnd, end > now { return ItemWait(.deletionBurst, until: end) }
        return agenda.deletionPauseEnd(of: row.key, now).map { ItemWait(.deletionWithoutEffect, until: $0) }
    }

    private func problem(of row: ItemRow) throws -> ItemWait? {
        guard let problem = agenda.problems.problem(.upload, of: row.key) else { return nil }
        let until = problem.retryAt > now ? problem.retryAt : nil
        if problem.error.code == .quotaExceeded, let quota = context.connection.status.quotaBytes,
            let used = context.connection.status.usedBytes
        {
            let known = row.dirty.contains(.created) ? 0 : try reader.remote(id: row.id)?.content?.size ?? 0
            let reason = ItemWait.Reason.accountFull(
                needs: max(0, row.size - known), left: max(0, quota - used), quota: quota)
            return ItemWait(reason, until: until)
        }
        return until.map { ItemWait(.refused(problem.error.description), until: $0) }
    }

    private func pause(of row: ItemRow) throws -> ItemWait? {
        if let pause = agenda.pause(of: row.key, now) { return wait(for: pause, of: row) }
        if agenda.paused.contains(row.key) { return ItemWait(.pausedByProgram) }
        if row.kind == .file, let until = agenda.throttle.restsUntil(row.key) {
            return wait(for: Pause(until: until, reason: .isThrottled), of: row)
        }
        guard row.isWriting, row.dirty.contains(.content) else { return nil }
        return ItemWait(.openForWriting(by: writers(of: row)))
    }

    private func wait(for pause: Pause, of row: ItemRow) -> ItemWait {
        if pause.reason == .changesDuringRead, row.isWriting {
            return ItemWait(.openForWriting(by: writers(of: row)), until: pause.until)
        }
        return pause.wait(rate: agenda.throttle.rate(of: row.key), writers: writers(of: row))
    }

    private func writers(of row: ItemRow) -> [String] { context.openItems?.writers(of: row) ?? [] }

    private func name(of row: ItemRow) throws -> ItemWait? {
        if context.index.isHeld(row.key) { return ItemWait(.renameExpected) }
        guard row.dirty.contains(.created), row.kind == .file, !row.isDeleted else { return nil }
        if row.isWriting, row.generation == 0 { return ItemWait(.openForWriting(by: writers(of: row))) }
        let end = row.dirtyAt.advanced(bySeconds: SyncLimits.temporaryFileRest / .seconds(1))
        guard row.dirtyAt <= now, end > now, try row.mayBeTemporary(reader) else { return nil }
        return ItemWait(.temporaryName, until: end)
    }

    private func folder(of row: ItemRow, depth: Int) throws -> ItemWait? {
        guard depth < Self.deepestFolder, let entry = row.entry, entry.parent != .root,
            let parent = try reader.row(key: entry.parent), parent.dirty.contains(.created),
            let wait = try obstacle(to: parent, depth: depth + 1)
        else { return nil }
        // One sentence names one folder: the one that waits itself.
        if case .folder = wait.reason { return wait }
        let because = ItemWait(wait.reason).sentence
        return ItemWait(
            .folder(name: parent.entry?.name.description ?? "", because: because), until: wait.until)
    }

    // MARK: Packages

    /// All changes of a package are sent together, so each of them waits for the same reason.
    private func package(of row: ItemRow) throws -> ItemWait? {
        var finder = PackageFinder(reader, context.index)
        let packages = try finder.packages(with: row)
        for package in packages.sorted() {
            guard let folder = try reader.row(key: package) else { continue }
            if uploader.isAsking(package) { return ItemWait(.packageInUse(by: writers(of: folder))) }
            if let pause = agenda.pause(of: package, now) { return wait(for: pause, of: folder) }
        }
        guard let package = packages.min() else { return nil }
        return try member(of: package, besides: row)
    }

    /// The reason why another change of the package cannot be sent.
    private func member(of package: ItemKey, besides row: ItemRow) throws -> ItemWait? {
        for member in try reader.members(of: package, limit: Limits.maximumChangesPerCommit)
        where member.key != row.key && !member.dirty.isEmpty {
            if let wait = try problem(of: member) { return wait }
            if try pause(of: member) != nil || context.transfers.upload(member.key) != nil {
                return ItemWait(.packageIncomplete)
            }
        }
        return nil
    }

    // MARK: Downloads

    /// Why the newest content of the item does not arrive now. Nil if it is here, arrives, or is not wanted.
    /// - Parameters:
    ///   - isArriving: whether requests for it are in flight.
    ///   - unavailability: the reason why the content cannot be downloaded, if one is known.
    func download(of row: ItemRow, isArriving: Bool, unavailability: UbiquityError?) throws -> ItemWait? {
        guard row.kind == .file, !row.isDeleted, !row.staysHere, !isArriving,
            let remote = try reader.remote(id: row.id), let content = remote.content
        else { return nil }
        let isMissing = row.contentState != .complete && row.size > 0
        guard isMissing || row.isOutdated(remote) else { return nil }
        let isWanted = row.isAskedFor || context.configuration.policy == .eager || !isMissing
        guard isWanted else { return nil }
        if let network { return network }
        if let problem = agenda.problems.problem(.download, of: row.key), let unavailability {
            return ItemWait(
                .contentUnavailable(unavailability.description),
                until: problem.retryAt > now ? problem.retryAt : nil)
        }
        if let unavailability { return ItemWait(.contentUnavailable(unavailability.description)) }
        if row.isWriting { return ItemWait(.openForWriting(by: writers(of: row))) }
        if try content.isAvailable && reader.isRecord(row.id, .awaitingPackage) { return ItemWait(.packageIncomplete) }
        return ItemWait(.turn)
    }
}

extension ItemRow {
    /// Whether a program may be about to rename the file over a document.
    func mayBeTemporary(_ reader: IndexReader) throws -> Bool {
        guard let entry else { return false }
        return try entry.name.isMadeUp
            || entry.name.possibleDocuments.contains { try reader.child(of: entry.parent, named: $0)?.kind == .file }
    }
}
