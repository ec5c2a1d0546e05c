internal import Logging
internal import UbiquityContent
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

// Packages: all changes of one are uploaded in one commit, once the package is quiet and every content is ready.
extension SyncEngine {
    /// The first package whose changes can be sent now.
    func readyPackage(among packages: [PackageChanges], _ now: Timestamp) throws -> PackageChanges? {
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
        let begun = push.withLock { state in
            let begun = changes.packages.reduce(now) { min($0, state.packagesSince[$1] ?? now) }
            for package in changes.packages { state.packagesSince[package] = begun }
            return begun
        }
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
        if push.withLock({ $0.prepared[row.key]?.generation == row.generation }) { return true }
        return row.wantsInlineContent && !isResting(row, now)
    }

    /// Makes the group of a package's changes. Small contents that exceed one commit are uploaded before it, in batches
    /// of a commit's size.
    func gather(_ changes: PackageChanges, deletionsUpTo: Int64) throws -> Outgoing {
        var outgoing = Outgoing(of: changes.packages)
        var prepared = push.withLock { $0.prepared }
        let limit = min(Limits.maximumInlineChunkBytes, sender.bytesPerRequest)
        var bytes = 0, cleaned = 0, rows = [ItemRow]()
        for row in changes.rows {
            guard row.wantsInlineContent, prepared[row.key]?.generation != row.generation else {
                rows.append(row)
                continue
            }
            if bytes > 0, bytes + Int(row.size) > limit { return outgoing }
            // One file that is being written delays the whole package.
            guard let (content, data) = try readSmall(row) else { return Outgoing(of: changes.packages) }
            if try markUnchanged(row, content.manifest) {
                cleaned += 1
                continue
            }
            prepared[row.key] = content
            outgoing.ahead[row.key] = content
            if let reference = content.manifest.first {
                outgoing.chunks.append(Chunk(id: reference.id, bytes: data))
                bytes += data.count
            }
            rows.append(row)
        }
        outgoing.ahead = [:]
        outgoing.group = try plan(
            rows, prepared, limit: Limits.maximumChangesPerCommit, deletionsUpTo: deletionsUpTo)
        noteParts(changes.packages, rows.count)
        outgoing.packages = try packageEdits(outgoing.group)
        // Nothing of the package can be sent now, so it is not retried at once.
        if outgoing.group.isEmpty, cleaned == 0 { agenda.pauseBriefly(changes.packages, .packageChanges) }
        if rows.count > Limits.maximumChangesPerCommit {
            logger.warning(
                "a package has more changes than one commit takes: it is uploaded in several",
                metadata: ["packages": "\(changes.packages.sorted())", "changes": "\(rows.count)"])
        }
        return outgoing
    }

    private func noteParts(_ packages: Set<ItemKey>, _ count: Int) {
        guard count > Limits.maximumChangesPerCommit || packages.count > Limits.maximumPackagesPerCommit else { return }
        push.withLock { $0.packagesInParts.formUnion(packages) }
    }

    /// Records that a package with two states cannot send all of its changes. With a part of them, neither state can be
    /// kept. If that persists, its changes are sent file by file.
    func noteUndecided(_ package: ItemKey) {
        let count = push.withLock { state in
            let count = (state.undecided[package] ?? 0) + 1
            state.undecided[package] = count
            if count == SyncLimits.packageAttempts { state.packagesInParts.insert(package) }
            return count
        }
        guard count == SyncLimits.packageAttempts else { return }
        logger.warning(
            "two devices changed a package, and not all of it can be uploaded: uploading file by file",
            metadata: ["package": "\(package)"])
    }

    /// Records that a package's local state lost. Its remaining changes should be sent next. If it loses repeatedly,
    /// they are sent file by file.
    func noteGivenWay(_ package: ItemKey, at revision: Revision) {
        let count = push.withLock { state in
            let count = (state.packagesGivenWay[package]?.count ?? 0) + 1
            state.packagesGivenWay[package] = GivenWay(revision: revision, count: count)
            if count == SyncLimits.packageAttempts { state.packagesInParts.insert(package) }
            return count
        }
        if count > 1 { agenda.pauseBriefly([package], .packageNeedsDecision) }
        guard count == SyncLimits.packageAttempts else { return }
        logger.warning(
            "a package's local state loses repeatedly: uploading its changes file by file",
            metadata: ["package": "\(package)"])
    }

    /// Records that the changes of these packages were sent or have lost.
    func noteDecided(_ packages: Set<ItemKey>) {
        push.withLock { state in
            for package in packages {
                state.packagesSince[package] = nil
                state.undecided[package] = nil
            }
        }
    }

    /// The edits of packages that a commit makes, with the base of each.
    ///
    /// While a package has local changes, no remote record is placed in it. So the shown state is the cloud's state
    /// just before the first held record, or the current one if none is held. The local changes are based on that
    /// state.
    ///
    /// Changes that travel in several commits are no state that a decision could be made about. They are sent file by
    /// file, and later edits of other devices are based on them.
    private func packageEdits(_ group: [PlannedChange]) throws -> [PackageEdit] {
        try index.read { reader in
            var finder = PackageFinder(reader, index), times = [ItemKey: Timestamp]()
            for planned in group {
                for package in try finder.packages(changedBy: planned.row) {
                    let change = planned.row.lastChange
                    times[package] = max(change, times[package] ?? change)
                }
            }
            guard !times.isEmpty else { return [] }
            let (inParts, givenWay) = push.withLock { ($0.packagesInParts, $0.packagesGivenWay) }
            let position = try reader.feedPosition().revision, held = try reader.heldPackages(index)
            let packages = times.sorted { $0.key < $1.key }.prefix(Limits.maximumPackagesPerCommit)
            return try packages.compactMap { key, time in
                guard let row = try reader.row(key: key) else { return nil }
                if inParts.contains(key) { return PackageEdit(id: row.id, base: nil, changedAt: time) }
                var unknown = held[key] ?? []
                if let known = givenWay[key] {
                    unknown = try reader.heldRecords(unknown, of: key, since: known.revision, index)
                }
                let first = try unknown.compactMap { try reader.remote(id: $0)?.revision }.min()
                let base = first.map { min(position, Revision($0.number - 1)) } ?? position
                return PackageEdit(id: row.id, base: Revision(max(0, base.number)), changedAt: time)
            }
        }
    }

    /// Uploads chunks ahead of a package's commit.
    func sendAhead(_ outgoing: Outgoing) async throws {
        try await upload(outgoing.chunks, outgoing.chunks.reduce(0) { $0 + $1.bytes.count })
        push.withLock { state in
            for (key, content) in outgoing.ahead { state.prepared[key] = content }
        }
    }

    /// Records that the cloud refuses a package. No part of it is sent without the others.
    func noteRefusal(of members: [ItemKey], _ error: UbiquityError) {
        logger.warning("the cloud refuses the changes of a package", metadata: ["reason": "\(error)"])
        for member in members { problems.note(error, .upload, of: member) }
    }
}

extension IndexQueries {
    /// The held records of a package that its local state does not include. The state lost to the other records, which
    /// remain held for another package that they move into.
    fileprivate func heldRecords(
        _ records: [ItemID], of package: ItemKey, since known: Revision, _ index: ItemIndex
    ) throws -> [ItemID] {
        let staying = try heldForOthers(records, than: [package], index)
        return try records.filter { id in
            guard staying.contains(id), let record = try remote(id: id) else { return true }
            return record.revision > known
        }
    }
}

extension PushState {
    /// Forgets the state of packages that have nothing to send.
    mutating func keepPackages(_ packages: Set<ItemKey>) {
        packagesGivenWay = packagesGivenWay.filter { packages.contains($0.key) }
        packagesSince = packagesSince.filter { packages.contains($0.key) }
        undecided = undecided.filter { packages.contains($0.key) }
        packagesInParts.formIntersection(packages)
    }
}
