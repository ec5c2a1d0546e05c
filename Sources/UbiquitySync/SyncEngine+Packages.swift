internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Changes of one package that go up together.
struct PackageChanges: Sendable {
    var package: ItemKey
    /// In the order in which they became dirty.
    var rows: [ItemRow]
}

/// Dirty rows that may go now.
struct SendableRows: Sendable {
    var loose: [ItemRow] = []
    /// A package all of whose changes may go, ahead of the loose ones.
    var package: PackageChanges?
    /// Deletions later in the order of changes wait. Nil: none was met, and it was not asked.
    var deletionsUpTo: Int64?
}

// Packages: what was changed in one goes up in one commit, when it has come to rest and every content is ready.
extension SyncEngine {
    /// The first package whose changes can go now.
    func readyPackage(among packages: [PackageChanges], _ now: Timestamp) throws -> PackageChanges? {
        guard !packages.isEmpty else { return nil }
        let written = try packagesBeingWritten()
        return packages.first {
            !isAsking(about: $0.package) && isReady($0, isWritten: written.contains($0.package), now)
        }
    }

    private func packagesBeingWritten() throws -> Set<ItemKey> {
        try index.read { reader in
            var finder = PackageFinder(reader, index)
            // What never goes up, like an editor's swap file, may be open for as long as it likes.
            return Set(try reader.openForWriting().filter { !$0.isExcluded }.compactMap { try finder.package(of: $0) })
        }
    }

    /// Whether a package has come to rest: a program saves it file by file, and no other device is to see half of that.
    private func isReady(_ changes: PackageChanges, isWritten: Bool, _ now: Timestamp) -> Bool {
        let begun = push.withLock { state in
            let begun = min(state.packagesSince[changes.package] ?? now, now)
            state.packagesSince[changes.package] = begun
            return begun
        }
        guard changes.rows.allSatisfy({ !problems.isHeld(.upload, of: $0.key) && !index.isHeld($0.key) }) else {
            return false
        }
        if let rest = push.withLock({ $0.rescanAt[changes.package] }), rest > now { return false }
        let patience = begun.advanced(bySeconds: SyncLimits.packagePatience / .seconds(1))
        let last = changes.rows.map { min($0.dirtyAt, now) }.max() ?? now
        let quiet = last.advanced(bySeconds: SyncLimits.packageQuiet / .seconds(1))
        if isWritten || quiet > now, patience > now {
            let next = isWritten ? now.advanced(bySeconds: SyncLimits.packageQuiet / .seconds(1)) : quiet
            push.withLock { $0.rescanAt[changes.package] = min(next, patience) }
            return false
        }
        return changes.rows.allSatisfy { isReadyMember($0, now) }
    }

    /// Large contents are sent before, like those of other files; small ones travel along.
    private func isReadyMember(_ row: ItemRow, _ now: Timestamp) -> Bool {
        guard row.kind == .file, row.dirty.contains(.content), !row.isDeleted else { return true }
        if push.withLock({ $0.prepared[row.key]?.generation == row.generation }) { return true }
        return row.wantsInlineContent && !isResting(row, now)
    }

    /// Makes the group of a package's changes. Small contents that are more than a commit carries are sent before, as
    /// many at a time as a commit would carry.
    func gather(_ changes: PackageChanges, deletionsUpTo: Int64) throws -> Outgoing {
        var outgoing = Outgoing(package: changes.package)
        var prepared = push.withLock { $0.prepared }
        var bytes = 0, cleaned = 0, rows = [ItemRow]()
        for row in changes.rows {
            guard row.wantsInlineContent, prepared[row.key]?.generation != row.generation else {
                rows.append(row)
                continue
            }
            if bytes + Int(row.size) > Limits.maximumInlineChunkBytes { return outgoing }
            // One that is being written keeps all of them waiting.
            guard let (content, data) = try readSmall(row) else { return Outgoing(package: changes.package) }
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
        outgoing.packages = try packageEdits(outgoing.group)
        // What travels in several commits is no state that could be decided about: file by file then, and others who
        // come after it learn of it.
        if isInParts(changes.package, rows.count) {
            for place in outgoing.packages.indices { outgoing.packages[place].base = nil }
        }
        // Nothing of it can go now: it is not looked at again at once.
        if outgoing.group.isEmpty, cleaned == 0 {
            let until = timekeeper.now().advanced(bySeconds: SyncLimits.rescanDelay / .seconds(1))
            push.withLock { $0.rescanAt[changes.package] = until }
        }
        if rows.count > Limits.maximumChangesPerCommit {
            logger.warning(
                "a package has more changes than one commit takes: it travels in several",
                metadata: ["package": "\(changes.package)", "changes": "\(rows.count)"])
        }
        return outgoing
    }

    private func isInParts(_ package: ItemKey, _ count: Int) -> Bool {
        push.withLock { state in
            if count > Limits.maximumChangesPerCommit { state.packagesInParts.insert(package) }
            return state.packagesInParts.contains(package)
        }
    }

    /// What a commit says of the packages that its changes are about.
    ///
    /// While a package has changes made here, no record of others comes into it. So what is shown is what the cloud had
    /// when the first of them was held, or has now, if none is; and what was changed here was changed in that.
    private func packageEdits(_ group: [PlannedChange]) throws -> [PackageEdit] {
        try index.read { reader in
            var finder = PackageFinder(reader, index), times = [ItemKey: Timestamp]()
            for planned in group {
                for package in try finder.packages(changedBy: planned.row) {
                    times[package] = max(planned.row.dirtyAt, times[package] ?? planned.row.dirtyAt)
                }
            }
            guard !times.isEmpty else { return [] }
            let position = try reader.feedPosition().revision, held = try reader.heldPackages(index)
            let packages = times.sorted { $0.key < $1.key }.prefix(Limits.maximumPackagesPerCommit)
            return try packages.compactMap { key, time in
                guard let row = try reader.row(key: key) else { return nil }
                let first = try held[key]?.compactMap { try reader.remote(id: $0)?.revision }.min()
                let base = first.map { min(position, Revision($0.number - 1)) } ?? position
                return PackageEdit(id: row.id, base: Revision(max(0, base.number)), changedAt: time)
            }
        }
    }

    /// Sends chunks that go ahead of a package's commit.
    func sendAhead(_ outgoing: Outgoing) async throws {
        try await service.upload(outgoing.chunks)
        push.withLock { state in
            for (key, content) in outgoing.ahead { state.prepared[key] = content }
        }
    }

    /// The cloud refuses a package: no part of it goes without the others.
    func noteRefusal(of group: [PlannedChange], _ error: UbiquityError) {
        logger.warning("the cloud refuses the changes of a package", metadata: ["reason": "\(error)"])
        for change in group { problems.note(error, .upload, of: change.row.key) }
    }
}
