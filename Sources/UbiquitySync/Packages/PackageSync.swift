internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Synchronizes packages: gathers all changes of one, and decides when two devices have changed it.
///
/// When two devices change a package, the cloud takes the first device's state and names the winner. The second device
/// knows both states. In one commit it sends the winning state and keeps the losing one. If a third device changes the
/// package in between, the cloud refuses again.
///
/// It holds nothing but its rooms. The gatherer calls `gather`, and `ChangeSender` calls `decide`. `PackageBacklog`
/// knows the packages with unsent changes, `PackageClaims` asks the users, `PackageJudge` decides, and `PackageCommits`
/// carries out the decision.
final class PackageSync: SyncRoom {
    let context: SyncContext
    let backlog: PackageBacklog
    private let sender: CommitSender
    private let claims: PackageClaims
    private let contents: PendingContents
    private let outcomes: CommitOutcomes
    private let commits: PackageCommits

    init(
        _ context: SyncContext, _ sender: CommitSender, _ claims: PackageClaims, _ contents: PendingContents,
        _ outcomes: CommitOutcomes, _ staged: StagedPackages
    ) {
        let backlog = PackageBacklog(context, claims, contents)
        self.context = context
        self.backlog = backlog
        self.sender = sender
        self.claims = claims
        self.contents = contents
        self.outcomes = outcomes
        commits = PackageCommits(
            context: context, sender: sender, contents: contents, backlog: backlog, outcomes: outcomes,
            staged: staged)
    }

    // MARK: Gathering

    /// Makes the group of a package's changes. Small contents that exceed one commit are uploaded before it, in batches
    /// of a commit's size.
    func gather(_ changes: PackageChanges, deletionsUpTo: Int64) throws -> Outgoing {
        var outgoing = Outgoing(of: changes.packages)
        var ready = GroupContents(contents, bytesPerRequest: sender.bytesPerRequest)
        for row in changes.rows {
            switch try ready.add(row) {
            case .added, .unchanged: continue
            // One file that is being written delays the whole package.
            case .unreadable: return outgoing
            case .exceedsRequest:
                outgoing.ahead = ready.read
                outgoing.chunks = ready.chunks
                return outgoing
            }
        }
        let rows = ready.rows
        outgoing.chunks = ready.chunks
        outgoing.group = try GroupPlanner(context: context).plan(
            rows, ready.prepared, limit: Limits.maximumChangesPerCommit, deletionsUpTo: deletionsUpTo)
        backlog.recordSize(of: changes.packages, rows.count)
        outgoing.packages = try packageEdits(outgoing.group)
        // Nothing of the package can be sent now, so it is not retried at once.
        if outgoing.group.isEmpty, !ready.hasCleared { agenda.pauseBriefly(changes.packages, .packageChanges) }
        if rows.count > Limits.maximumChangesPerCommit {
            logger.warning(
                "a package has more changes than one commit takes: it is uploaded in several",
                metadata: ["packages": "\(changes.packages.sorted())", "changes": "\(rows.count)"])
        }
        return outgoing
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
            let (inParts, losses) = backlog.exceptions
            let position = try reader.feedPosition().revision, held = try reader.heldPackages(index)
            let packages = times.sorted { $0.key < $1.key }.prefix(Limits.maximumPackagesPerCommit)
            return try packages.compactMap { key, time in
                guard let row = try reader.row(key: key) else { return nil }
                if inParts.contains(key) { return PackageEdit(id: row.id, base: nil, changedAt: time) }
                var unknown = held[key] ?? []
                if let known = losses[key] {
                    unknown = try reader.heldRecords(unknown, of: key, since: known.revision, index)
                }
                let first = try unknown.compactMap { try reader.remote(id: $0)?.revision }.min()
                let base = first.map { min(position, Revision($0.number - 1)) } ?? position
                return PackageEdit(id: row.id, base: Revision(max(0, base.number)), changedAt: time)
            }
        }
    }

    // MARK: Decisions

    func decide(_ conflict: PackageConflict, _ group: [PlannedChange], _ outgoing: Outgoing) async throws {
        let key = try await pool.run { [index] in try index.read { try $0.row(id: conflict.package)?.key } }
        guard let key, !outgoing.decided.packages.contains(key) else {
            // Another device has changed the package in between.
            agenda.happened(.feedIsNeeded)
            return agenda.pauseBriefly(outgoing.owners, .packageNeedsDecision)
        }
        let involved = outgoing.owners.union([key])
        guard let letGo = claims.claim(key) else { return agenda.pauseBriefly(involved, .packageNeedsDecision) }
        defer { letGo() }
        switch try await pool.run({ [self] in try look(at: key, conflict, group) }) {
        case .states(let meeting): try await decide(conflict, meeting, group, outgoing)
        case .notYet:
            agenda.happened(.feedIsNeeded)
            agenda.pauseBriefly(involved, .packageNeedsDecision)
        case .notWhole:
            backlog.recordUndecided(key)
            agenda.pauseBriefly(involved, .packageNeedsDecision)
        }
    }

    private func decide(
        _ conflict: PackageConflict, _ meeting: PackageMeeting, _ group: [PlannedChange], _ outgoing: Outgoing
    ) async throws {
        logger.info("two devices changed a package", metadata: ["package": "\(conflict.package)"])
        do {
            let members = PackageContents(context: context)
            let manifests = try await members.theirManifests(meeting)
            let judge = PackageJudge(
                conflict: conflict, meeting: meeting, group: group,
                contents: try await members.myContents(meeting, group, manifests), manifests: manifests,
                device: configuration.device, deviceName: configuration.deviceName, random: random)
            let beside = outgoing.decided.others.count + outgoing.decided.packages.count
            try await carryOut(try judge.decision(beside: beside), meeting, outgoing)
        } catch let full as CloudIsFull {
            outcomes.recordRefusal(of: group.map(\.row.key), full.reason)
            agenda.pauseBriefly(outgoing.owners.union([meeting.key]), .packageNeedsDecision)
        } catch let error as UbiquityError where error.code == .noSpace || error.isAboutContent {
            outcomes.recordRefusal(of: group.map(\.row.key), error)
            agenda.pauseBriefly(outgoing.owners.union([meeting.key]), .packageNeedsDecision)
        }
    }

    /// Both states, once the feed is read up to the conflict's revision and the local state is unchanged.
    private func look(at key: ItemKey, _ conflict: PackageConflict, _ group: [PlannedChange]) throws -> PackageLook {
        try index.read { reader in
            guard try reader.feedPosition().revision >= conflict.revision else { return .notYet }
            guard var meeting = try reader.meeting(of: key, index) else { return .notWhole }
            let members = meeting.rows.dropFirst().filter { !$0.isExcluded }
            guard !members.contains(where: \.isWriting) else { return .notYet }
            for planned in group {
                guard let row = try reader.row(key: planned.row.key), row.isSameState(as: planned.row),
                    planned.hasWholeContent
                else { return .notWhole }
            }
            let sent = Set(group.map(\.row.key))
            // A dirty item outside the group is not ready.
            guard members.allSatisfy({ $0.dirty.isEmpty || sent.contains($0.key) }) else { return .notWhole }
            // The same changes may concern another package, which has no conflict.
            var finder = PackageFinder(reader, index)
            let own = try group.filter { try finder.packages(changedBy: $0.row).contains(key) }
            meeting.own = Set(own.map(\.row.id))
            meeting.deleted = own.filter { $0.change.action == .delete }.map(\.row)
            // Items moved out of the package at the cloud remain outside, whatever happened to them here.
            for row in meeting.deleted where meeting.remotePaths[row.id] == nil {
                meeting.departed[row.id] = try reader.remote(id: row.id)
            }
            return .states(meeting)
        }
    }

    private func carryOut(
        _ decision: PackageDecision, _ meeting: PackageMeeting, _ outgoing: Outgoing
    ) async throws {
        // Both states are equal, so no commit is needed.
        if decision.givesWay, decision.lost == nil { return try await commits.replace(meeting, nil) }
        for chunk in outgoing.chunks { try await service.upload([chunk]) }
        for chunk in decision.chunks { try await service.upload([chunk]) }
        do {
            if decision.givesWay {
                let response = try await commits.sendLoss(decision, meeting)
                return try await commits.replace(meeting, response)
            }
            if outgoing.decided.packages.isEmpty, try await commits.sendInParts(decision, meeting) { return }
            try await commits.sendWhole(decision, meeting, outgoing)
        } catch let other as PackageConflict {
            // An item was moved from one package to another, so a decision about both is needed.
            guard other.package != meeting.id, !decision.isPart else {
                agenda.happened(.feedIsNeeded)
                return agenda.pauseBriefly(outgoing.owners.union([meeting.key]), .packageNeedsDecision)
            }
            try await decide(other, decision.planned, outgoing.with(decision, about: meeting))
        } catch let error as MissingChunks {
            outcomes.forgetPrepared(decision.planned, lacking: Set(error.ids))
            // The cloud has lost chunks of the other state, and this device does not have them.
            if try await !commits.sendAgain(Set(error.ids), decision.edit.lost?.manifest ?? []) {
                backlog.recordUndecided(meeting.key)
            }
            agenda.pauseBriefly([meeting.key], .packageNeedsDecision)
        } catch let error as OutdatedCommit {
            try await sender.raiseNumbers(after: error)
        }
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
