internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// Compares the index's records with the cloud's.
struct RecordCheck: Check {
    let context: CheckContext

    /// Reads all of the cloud's items up to the feed's local position, and compares them.
    /// - Parameter damaged: unreadable records. They are taken from the cloud, and `examineFields` reports them.
    func run(
        damaged: Set<ItemID>, _ diagnosis: inout Diagnosis
    ) async throws {
        let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
        guard position.incarnation != nil, !position.isInSnapshot else { return }
        var revision = Revision.zero, hasMore = true, seen = Set<ItemID>(), ahead = [ItemID: RemoteItem]()
        while hasMore {
            let page = try await service.snapshot(after: revision, limit: SyncLimits.listingPage)
            let items = page.items.filter { !$0.isDeleted }
            seen.formUnion(items.map(\.id))
            let (found, later) = try await pool.run {
                (
                    try self.compare(items, upTo: position.revision, damaged),
                    try self.isAhead(of: items, upTo: position.revision)
                )
            }
            diagnosis.add(found)
            for item in items { ahead[item.id] = later.contains(item.id) ? item : nil }
            diagnosis.records += items.count
            revision = page.revision
            hasMore = page.hasMore
        }
        let end = revision
        // The cloud's feed has the deletions made meanwhile. If it does not reach back that far, a deletion
        // cannot be distinguished from a loss.
        do {
            let known = seen.union(try await changes(since: position.revision).keys)
            diagnosis.add(try await pool.run { try self.examineUnknownRecords(known, upTo: end) })
        } catch let error as UbiquityError where error.code == .feedCompacted {
            logger.info("records that only this device has are not examined", metadata: ["reason": "\(error)"])
        }
        diagnosis.add(try await examineRecordsAhead(ahead, after: end))
    }

    /// The items that have changed at the cloud since, in their current state.
    private func changes(since revision: Revision) async throws -> [ItemID: RemoteItem] {
        var changed = [ItemID: RemoteItem](), revision = revision, hasMore = true
        while hasMore {
            let page = try await service.changes(after: revision, limit: SyncLimits.listingPage)
            for item in page.items { changed[item.id] = item }
            revision = page.revision
            hasMore = page.hasMore
        }
        return changed
    }

    /// The items with a later record in the index than at the cloud. Either this device received a change meanwhile, or
    /// the index is wrong and would ignore news of the item.
    private func isAhead(of items: [RemoteItem], upTo revision: Revision) throws -> Set<ItemID> {
        let ahead = try items.filter { item in
            guard item.id != .root, item.revision <= revision else { return false }
            return try index.read { try $0.remote(id: item.id) }.map { $0.revision > item.revision } ?? false
        }
        return Set(ahead.map(\.id))
    }

    /// - Parameters:
    ///   - ahead: the cloud's records.
    ///   - revision: the last position that was read.
    private func examineRecordsAhead(
        _ ahead: [ItemID: RemoteItem], after revision: Revision
    ) async throws -> [Finding] {
        guard !ahead.isEmpty else { return [] }
        // Read before the cloud is queried: the answer then includes every change that these can stem from.
        let known = try await pool.run { [index] in
            try index.read { reader in try ahead.keys.map { try reader.remote(id: $0) } }.compactMap { $0 }
        }
        let latest = ahead.merging(try await changes(since: revision)) { _, now in now }
        let wrong = known.filter { record in latest[record.id].map { $0.revision < record.revision } ?? false }
        return try await pool.run {
            try wrong.sorted { $0.id < $1.id }.compactMap { record in
                guard let item = latest[record.id], try self.index.read({ try $0.remote(id: item.id) }) == record else {
                    return nil
                }
                if options.repairs { try self.device.replaceRecord(with: item) }
                return Finding(
                    .recordDiffers, "\(item.name)",
                    "item \(item.id) at revision \(record.revision), which the cloud never had",
                    options.repairs ? .repaired("taken from the cloud") : .found)
            }
        }
    }

    private static let copyOut = "copy it out of .versions on a device that has its content, or remove it there"

    private func compare(
        _ items: [RemoteItem], upTo revision: Revision, _ damaged: Set<ItemID>
    ) throws -> [Finding] {
        try items.compactMap { item in
            guard item.id != .root, item.revision <= revision else { return nil }
            let (known, conflicts, isHeld) = try index.read {
                (
                    try $0.remote(id: item.id), try $0.allConflicts(of: item.id),
                    try $0.isRecord(item.id, .awaitingPackage)
                )
            }
            guard !isHeld else { return nil }
            if damaged.contains(item.id) {
                if options.repairs { try device.replaceRecord(with: item) }
                return nil
            }
            let kind: Finding.Kind
            switch known {
            case nil: kind = .recordMissing
            case let known? where known.revision > item.revision: return nil
            case let known? where known.isSame(as: item) && conflicts == item.conflicts:
                return item.hasLostContent ? try repairLostContent(of: item) : nil
            // The index knows more of the content than the cloud.
            case let known? where item.hasLostContent || known.isMoreAvailable(than: item):
                return try repairLostContent(of: item)
            // The cloud counts more conflicts than it can list.
            case let known? where item.conflicts.count < min(item.conflictCount, conflicts.count)
                && known.conflictCount == item.conflictCount:
                return Finding(
                    .versionMissing, "\(item.name)", "the cloud has lost the description of a version in conflict",
                    options.repairs ? .unrepaired(Self.copyOut) : .found)
            case let known? where known.revision == item.revision:
                if let finding = try CloudRecordCheck(context: context).examine(item, known) { return finding }
                kind = .recordDiffers
            default: kind = .recordDiffers
            }
            if options.repairs { try device.replaceRecord(with: item) }
            return Finding(
                kind, "\(item.name)", "item \(item.id) at revision \(item.revision)",
                options.repairs ? .repaired("taken from the cloud") : .found)
        }
    }

    /// Uploads the content as a new version, if it is complete here.
    private func repairLostContent(of item: RemoteItem) throws -> Finding? {
        let (row, known) = try index.read { (try $0.row(id: item.id), try $0.remote(id: item.id)?.content) }
        // The cloud may have forgotten the version's id.
        let isHere = row?.contentState == .complete && [item.content?.version, known?.version].contains(row?.version)
        // Another content is being uploaded already.
        if let row, row.isDeleted || row.dirty.contains(.content) { return nil }
        var outcome = Finding.Outcome.found
        if options.repairs {
            if isHere, let row {
                try sendAgain(row, item)
                outcome = .repaired("uploaded again from here")
            } else {
                outcome = .unrepaired("its content is not here; run doctor on a device that has it")
            }
        }
        return Finding(.versionMissing, "\(item.name)", "the cloud has lost the description of its content", outcome)
    }

    private func sendAgain(_ row: ItemRow, _ item: RemoteItem) throws {
        try index.write(.startup) { transaction in
            guard let current = try transaction.row(key: row.key), current == row else { return }
            try transaction.setRemote(item, state: .settled)
            var next = current
            next.generation += 1
            next.nextVersion = nil
            try transaction.markDirty(&next, .content, now: timekeeper.now())
            try transaction.update(next, before: current)
        }
    }

    /// Examines records of items that the cloud lacks. This device sent no deletion of them, so they are uploaded
    /// again.
    private func examineUnknownRecords(
        _ seen: Set<ItemID>, upTo revision: Revision
    ) throws -> [Finding] {
        let live = try index.read { try $0.liveRecords() }
        return try live.filter { !seen.contains($0.key) && $0.value <= revision }.keys.sorted().compactMap { id in
            // The feed may have reported the deletion meanwhile.
            guard let known = try index.read({ try $0.remote(id: id) }), !known.isDeleted, known.revision <= revision
            else { return nil }
            let row = try index.read { try $0.row(id: id) }
            var outcome = Finding.Outcome.found
            if options.repairs, let row, row.kind == .file, row.contentState != .complete, !row.isDeleted {
                // The record is all that is left of the item.
                outcome = .unrepaired("its content is not here; run doctor on a device that has it")
            } else if options.repairs {
                try forget(known, row)
                outcome = .repaired("the local item is uploaded again")
            }
            return Finding(.recordUnknown, "\(known.name)", "the cloud does not have item \(id)", outcome)
        }
    }

    private func forget(_ item: RemoteItem, _ row: ItemRow?) throws {
        try index.write(.remote) { transaction in
            try transaction.forgetRemote(item.id)
            guard let row = try row.flatMap({ try transaction.row(key: $0.key) }) else { return }
            try transaction.sendWhatIsHere(row)
        }
    }
}

extension RemoteItem {
    /// Whether the index has the content as available and the cloud denies it. An available content never becomes
    /// unavailable.
    fileprivate func isMoreAvailable(than item: RemoteItem) -> Bool {
        guard let known = content, let told = item.content else { return false }
        return known.version == told.version && known.isAvailable && !told.isAvailable
    }
}
