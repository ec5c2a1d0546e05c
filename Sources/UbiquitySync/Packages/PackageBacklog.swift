internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// A package whose local state lost.
struct PackageLoss {
    /// The revision of the cloud's state that won.
    var revision: Revision
    /// How often in a row.
    var count = 1
}

/// Packages with unsent changes: all changes of one are uploaded in one commit, once the package is quiet and every
/// content is ready.
///
/// It holds since when each package has changes, and how often decisions about it failed or went against it. The
/// gatherer and `PackageSync` call it. It asks `PackageClaims` and `PendingContents`.
final class PackageBacklog: SyncRoom {
    let context: SyncContext
    private let claims: PackageClaims
    private let contents: PendingContents

    private struct State {
        /// When each package with unsent changes was first seen.
        var since: [ItemKey: Timestamp] = [:]
        /// Packages whose changes are uploaded file by file until none remains: they need several commits, or no
        /// decision was possible.
        var inParts: Set<ItemKey> = []
        /// Packages whose local state lost and that still have local changes.
        var losses: [ItemKey: PackageLoss] = [:]
        /// How often no decision was possible about a package with two states.
        var undecided: [ItemKey: Int] = [:]

        /// - Returns: when the first of these packages was seen.
        mutating func begin(_ packages: Set<ItemKey>, _ now: Timestamp) -> Timestamp {
            let begun = packages.reduce(now) { min($0, since[$1] ?? now) }
            for package in packages { since[package] = begun }
            return begun
        }
    }

    private let state = Lock(State())

    init(_ context: SyncContext, _ claims: PackageClaims, _ contents: PendingContents) {
        self.context = context
        self.claims = claims
        self.contents = contents
    }

    /// Packages that are sent file by file, and packages whose local state lost.
    var exceptions: (inParts: Set<ItemKey>, losses: [ItemKey: PackageLoss]) {
        state.withLock { ($0.inParts, $0.losses) }
    }

    /// Forgets the state of packages that have nothing to send.
    func forgetOthers(than packages: Set<ItemKey>) {
        state.withLock { state in
            state.losses = state.losses.filter { packages.contains($0.key) }
            state.since = state.since.filter { packages.contains($0.key) }
            state.undecided = state.undecided.filter { packages.contains($0.key) }
            state.inParts.formIntersection(packages)
        }
    }

    // MARK: Readiness

    /// The first package whose changes can be sent now.
    func ready(among packages: [PackageChanges], _ now: Timestamp) throws -> PackageChanges? {
        guard !packages.isEmpty else { return nil }
        let written = try packagesBeingWritten()
        return try packages.first { changes in
            try !changes.packages.contains { claims.isAsking(about: $0) } && !isClaimed(changes.packages, now)
                && isReady(changes, isWritten: !changes.packages.isDisjoint(with: written), now)
        }
    }

    /// Whether a client has claimed one of them for writing. Then its state is unfinished, however long that takes.
    private func isClaimed(_ packages: Set<ItemKey>, _ now: Timestamp) throws -> Bool {
        guard let openItems else { return false }
        let isClaimed = try packages.contains { package in
            try openItems.mayBeUsed(package) && index.row(key: package).map(openItems.isBeingWritten) ?? false
        }
        guard isClaimed else { return false }
        let until = now.advanced(bySeconds: SyncLimits.claimedRest / .seconds(1))
        agenda.pause(packages, until: until, .packageIsClaimed)
        return true
    }

    private func packagesBeingWritten() throws -> Set<ItemKey> {
        try index.read { reader in
            var finder = PackageFinder(reader, index)
            // Excluded files, like an editor's swap file, may be open for any time.
            return Set(try reader.openForWriting().filter { !$0.isExcluded }.compactMap { try finder.package(of: $0) })
        }
    }

    /// Whether a package is quiet. A program saves it file by file, and no other device must see a partial save.
    private func isReady(_ changes: PackageChanges, isWritten: Bool, _ now: Timestamp) -> Bool {
        let begun = state.withLock { $0.begin(changes.packages, now) }
        guard changes.rows.allSatisfy({ !problems.isHeld(.upload, of: $0.key) && !index.isHeld($0.key) }) else {
            return false
        }
        if agenda.isAnyPaused(changes.packages, now) { return false }
        let patience = begun.advanced(bySeconds: SyncLimits.packagePatience / .seconds(1))
        let last = changes.rows.map { min($0.dirtyAt, now) }.max() ?? now
        let quiet = last.advanced(bySeconds: SyncLimits.packageQuiet / .seconds(1))
        if isWritten || quiet > now, patience > now {
            let next = isWritten ? now.advanced(bySeconds: SyncLimits.packageQuiet / .seconds(1)) : quiet
            // A package may become part of another group, so all packages of the group wait together.
            agenda.pause(
                changes.packages, until: min(next, patience), isWritten ? .packageIsWritten : .packageChanges)
            return false
        }
        return changes.rows.allSatisfy { isReadyMember($0, now) }
    }

    /// Whether a member can be sent. Large contents are uploaded before, as for other files. Small ones travel inside
    /// the commit.
    private func isReadyMember(_ row: ItemRow, _ now: Timestamp) -> Bool {
        guard row.kind == .file, row.dirty.contains(.content), !row.isDeleted else { return true }
        if contents.isPrepared(row) { return true }
        return row.wantsInlineContent && !contents.mustWait(row, now)
    }

    // MARK: Outcomes

    /// Records the size of packages' changes. If one commit cannot take them, they are sent file by file.
    func recordSize(of packages: Set<ItemKey>, _ count: Int) {
        guard count > Limits.maximumChangesPerCommit || packages.count > Limits.maximumPackagesPerCommit else { return }
        state.withLock { $0.inParts.formUnion(packages) }
    }

    /// Records that a package with two states cannot send all of its changes. With a part of them, neither state can be
    /// kept. If that persists, its changes are sent file by file.
    func recordUndecided(_ package: ItemKey) {
        let count = state.withLock { state in
            let count = (state.undecided[package] ?? 0) + 1
            state.undecided[package] = count
            if count == SyncLimits.packageAttempts { state.inParts.insert(package) }
            return count
        }
        guard count == SyncLimits.packageAttempts else { return }
        logger.warning(
            "two devices changed a package, and not all of it can be uploaded: uploading file by file",
            metadata: ["package": "\(package)"])
    }

    /// Records that a package's local state lost. Its remaining changes should be sent next. If it loses repeatedly,
    /// they are sent file by file.
    func recordLoss(of package: ItemKey, at revision: Revision) {
        let count = state.withLock { state in
            let count = (state.losses[package]?.count ?? 0) + 1
            state.losses[package] = PackageLoss(revision: revision, count: count)
            if count == SyncLimits.packageAttempts { state.inParts.insert(package) }
            return count
        }
        if count > 1 { agenda.pauseBriefly([package], .packageNeedsDecision) }
        guard count == SyncLimits.packageAttempts else { return }
        logger.warning(
            "a package's local state loses repeatedly: uploading its changes file by file",
            metadata: ["package": "\(package)"])
    }

    /// Records that the changes of these packages were sent or have lost.
    func recordDecided(_ packages: Set<ItemKey>) {
        state.withLock { state in
            for package in packages {
                state.since[package] = nil
                state.undecided[package] = nil
            }
        }
    }
}
