internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Dirty rows that can be sent now.
struct SendableRows: Sendable {
    var loose: [ItemRow] = []
    /// A package whose changes can all be sent. It is sent before the loose rows.
    var package: PackageChanges?
    /// Whether not all rows were examined and some of those examined belong to packages.
    var leavesPackages = false
    /// Deletions after this position in the order of changes wait. Nil if none was found, so the limit was not
    /// computed.
    var deletionsUpTo: Int64?
}

/// Selects the changes that can be sent now, with the small contents that travel inside the commit.
///
/// It holds when the backlog was last searched for packages. `ChangeSender` calls `gather`. It asks `DeletionHold`,
/// `AccountQuota`, `NewFiles` and `FolderTimes` what must wait, and `PackageSync` for the changes of packages.
final class Gatherer: SyncRoom {
    let context: SyncContext
    private let sender: CommitSender
    private let contents: PendingContents
    private let hold: DeletionHold
    private let quota: AccountQuota
    private let folderTimes: FolderTimes
    private let newFiles: NewFiles
    private let packages: PackageSync
    /// When the whole backlog was last searched for changes of packages, because no change before them could be sent.
    private let packagesSearchedAt = Lock<Timestamp?>(nil)

    init(
        _ context: SyncContext, _ sender: CommitSender, _ contents: PendingContents, _ hold: DeletionHold,
        _ quota: AccountQuota, _ folderTimes: FolderTimes, _ packages: PackageSync
    ) {
        self.context = context
        self.sender = sender
        self.contents = contents
        self.hold = hold
        self.quota = quota
        self.folderTimes = folderTimes
        newFiles = NewFiles(context)
        self.packages = packages
    }

    /// The next group with its small contents, or nil if nothing can be sent now.
    ///
    /// Programs continue between the selection of the rows and the plan. Both are separate jobs in the pool, so that a
    /// simulator runs programs between them too.
    func gather() async throws -> Outgoing? {
        var start = quota.firstToExamine(), windows = 0, leavesPackages = false
        while true {
            let first = start
            let sendable = try await pool.run { try self.sendableRows(after: first) }
            leavesPackages = leavesPackages || sendable.leavesPackages
            let (outgoing, isAll) = try await pool.run { try self.gather(sendable) }
            guard outgoing == nil, isAll else { return outgoing }
            // All rows of one group's size may be blocked. Later rows need not be.
            guard let last = sendable.loose.last, sendable.loose.count >= configuration.changesPerCommit else { break }
            start = last.dirtyOrder
            windows += 1
            if windows >= SyncLimits.windowsOfBacklog { quota.recordExamined(upTo: start) }
        }
        // All changes of a package must be known before any is sent.
        guard leavesPackages, maySearchForPackages() else { return nil }
        let ofPackages = try await pool.run { try self.sendableRows(after: 0, onlyPackages: true) }
        return try await pool.run { try self.gather(ofPackages).0 }
    }

    /// Limits how often the whole backlog is searched, since a search of a large backlog takes long.
    private func maySearchForPackages() -> Bool {
        let now = timekeeper.now(), rest = SyncLimits.packagesRest / .seconds(1)
        let wait = packagesSearchedAt.withLock { searchedAt -> Timestamp? in
            if let until = searchedAt?.advanced(bySeconds: rest), until > now,
                until <= now.advanced(bySeconds: rest)
            {
                return until
            }
            searchedAt = now
            return nil
        }
        if let wait { agenda.lookAgain(at: wait) }
        return wait == nil
    }

    /// - Returns: nil if none of these rows can be sent, and whether all of them were examined.
    private func gather(_ sendable: SendableRows) throws -> (Outgoing?, isAll: Bool) {
        if let package = sendable.package {
            return (try packages.gather(package, deletionsUpTo: sendable.deletionsUpTo ?? 0), isAll: true)
        }
        let rows = sendable.loose
        guard !rows.isEmpty else { return (nil, isAll: true) }
        var ready = GroupContents(contents, bytesPerRequest: sender.bytesPerRequest)
        let isAll = try collect(rows, &ready)
        func planned(_ deletionsUpTo: Int64) throws -> [PlannedChange] {
            try GroupPlanner(context: context).plan(
                ready.rows, ready.prepared, limit: configuration.changesPerCommit, deletionsUpTo: deletionsUpTo,
                leavingPackages: true)
        }
        var group = try planned(sendable.deletionsUpTo ?? 0)
        // All of these may wait for names of items that were deleted later.
        if group.isEmpty, sendable.deletionsUpTo == nil { group = try planned(hold.limit(now: timekeeper.now())) }
        folderTimes.delay(&group)
        guard !group.isEmpty || ready.hasCleared else { return (nil, isAll) }
        var chunks = [ChunkID: Chunk]()
        for chunk in ready.chunks { chunks[chunk.id] = chunk }
        return (Outgoing(group: group, chunks: Array(chunks.values)), isAll)
    }

    /// Adds rows with their small contents to a group, up to the limits of a commit.
    /// - Returns: false if a content exceeds the request, so that later rows were not examined.
    private func collect(_ rows: [ItemRow], _ ready: inout GroupContents) throws -> Bool {
        var free = quota.free
        for row in rows where ready.rows.count < configuration.changesPerCommit {
            if try quota.exceeds(row, &free) {
                ready.addWithoutContent(row)
                continue
            }
            switch try ready.add(row) {
            case .added, .unchanged: continue
            case .unreadable: ready.addWithoutContent(row)
            case .exceedsRequest: return false
            }
        }
        return true
    }

    /// Dirty rows that can be sent now, in order: up to one group, or all changes of one package.
    /// - Parameters:
    ///   - start: the position in the order of changes. Rows before it cannot be sent. 0 for the first row.
    ///   - onlyPackages: search all rows, for changes of packages only.
    private func sendableRows(after start: Int64, onlyPackages: Bool = false) throws -> SendableRows {
        let now = timekeeper.now()
        var result = SendableRows(), isComplete = false
        var groups = PackageGroups(), order = start, scanned = 0
        var heldPackages = Set<ItemKey>(), finishedAt: Timestamp?, unfinished = Set<ItemKey>()
        while true {
            let (rows, owners, ends, unknown) = try index.read { reader in
                let rows = try reader.dirtyRows(after: order, limit: SyncLimits.rowsPerRead)
                var finder = PackageFinder(reader, index)
                let owners = try rows.map { try finder.packages(with: $0) }
                let ends = try rows.map { try newFiles.finish(of: $0, reader, now) }
                return (rows, owners, ends, try rows.map { try CloudKnowledge(reader: reader).isUnknownDeletion($0) })
            }
            guard let last = rows.last else {
                isComplete = start == 0
                break
            }
            order = last.dirtyOrder
            scanned += rows.count
            if result.deletionsUpTo == nil, rows.contains(where: \.isDeleted) {
                result.deletionsUpTo = try hold.limit(now: now)
            }
            for (place, row) in rows.enumerated() {
                let owner = owners[place]
                let isHeld = row.isDeleted && row.dirtyOrder > result.deletionsUpTo ?? 0 && !unknown[place]
                if isHeld { heldPackages.formUnion(owner) }
                if !owner.isEmpty {
                    groups.add(row, of: owner)
                } else if let end = ends[place], end > now {
                    finishedAt = min(finishedAt ?? end, end)
                    unfinished.insert(row.key)
                } else if !onlyPackages, result.loose.count < configuration.changesPerCommit, !isHeld,
                    isSendable(row, now)
                {
                    result.loose.append(row)
                }
            }
            // A package is sent only when all of its changes are known.
            let isEnough = result.loose.count >= configuration.changesPerCommit
            guard !isEnough || start == 0 && !groups.isEmpty && scanned < SyncLimits.packageScan else { break }
        }
        agenda.searched(nextLook: finishedAt, isWhole: start == 0 && !onlyPackages)
        if isComplete {
            newFiles.forgetOthers(than: unfinished)
            packages.backlog.forgetOthers(than: groups.packages)
        }
        guard isComplete else {
            result.leavesPackages = !groups.isEmpty
            return result
        }
        result.package = try packages.backlog.ready(among: groups.ordered(without: heldPackages), now)
        return result
    }

    private func isSendable(_ row: ItemRow, _ now: Timestamp) -> Bool {
        if problems.isHeld(.upload, of: row.key) || index.isHeld(row.key) { return false }
        if row.isDeleted { return agenda.deletionPauseEnd(of: row.key, now) == nil }
        guard row.dirty.contains(.content) else {
            // No item depends on the mode, times or attributes of a file, so a throttle may delay them.
            return row.kind != .file || !row.dirty.isDisjoint(with: [.created, .place]) || !agenda.isThrottled(row.key)
        }
        // Content that is not ready delays nothing else: a new file is announced, and other fields are sent.
        if contents.isPrepared(row) || row.dirty.contains(.created) { return !contents.mustWait(row, now) }
        return row.hasMoreThanContent || row.wantsInlineContent && !contents.mustWait(row, now)
    }
}
