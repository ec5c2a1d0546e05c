internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// `ubiquity doctor`: compares the index's records with the cloud, and the tree with the records.
extension SyncEngine {
    /// Reads all of the cloud's items up to the feed's local position, and compares them.
    /// - Parameter damaged: unreadable records. They are taken from the cloud, and `examineFields` reports them.
    func examineRecords(
        _ options: ExaminationOptions, damaged: Set<ItemID>, _ diagnosis: inout Diagnosis
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
                    try self.compare(items, upTo: position.revision, damaged, options),
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
        // The cloud's feed has the deletions made meanwhile. If it does not reach back that far, they cannot be told
        // apart.
        do {
            let known = seen.union(try await changes(since: position.revision).keys)
            diagnosis.add(try await pool.run { try self.examineUnknownRecords(known, upTo: end, options) })
        } catch let error as UbiquityError where error.code == .feedCompacted {
            logger.info("records that only this device has are not examined", metadata: ["reason": "\(error)"])
        }
        diagnosis.add(try await examineRecordsAhead(ahead, after: end, options))
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
    ///   - revision: the position up to which they were read.
    private func examineRecordsAhead(
        _ ahead: [ItemID: RemoteItem], after revision: Revision, _ options: ExaminationOptions
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
                if options.repairs { try self.takeAnew(item) }
                return Finding(
                    .recordDiffers, "\(item.name)",
                    "item \(item.id) at revision \(record.revision), which the cloud never had",
                    options.repairs ? .repaired("taken from the cloud") : .found)
            }
        }
    }

    private static let copyOut = "copy it out of .versions on a device that has its content, or remove it there"

    private func compare(
        _ items: [RemoteItem], upTo revision: Revision, _ damaged: Set<ItemID>, _ options: ExaminationOptions
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
                if options.repairs { try takeAnew(item) }
                return nil
            }
            let kind: Finding.Kind
            switch known {
            case nil: kind = .recordMissing
            case let known? where known.revision > item.revision: return nil
            case let known? where known.isSame(as: item) && conflicts == item.conflicts:
                return item.hasLostContent ? try repairLostContent(of: item, options) : nil
            // The index knows more of the content than the cloud.
            case let known? where item.hasLostContent || known.isMoreAvailable(than: item):
                return try repairLostContent(of: item, options)
            // The cloud counts more conflicts than it can list.
            case let known? where item.conflicts.count < min(item.conflictCount, conflicts.count)
                && known.conflictCount == item.conflictCount:
                return Finding(
                    .versionMissing, "\(item.name)", "the cloud has lost the description of a version in conflict",
                    options.repairs ? .unrepaired(Self.copyOut) : .found)
            case let known? where known.revision == item.revision:
                if let finding = try examineCloudsRecord(item, known, options) { return finding }
                kind = .recordDiffers
            default: kind = .recordDiffers
            }
            if options.repairs { try takeAnew(item) }
            return Finding(
                kind, "\(item.name)", "item \(item.id) at revision \(item.revision)",
                options.repairs ? .repaired("taken from the cloud") : .found)
        }
    }

    /// Uploads the content as a new version, if it is complete here.
    private func repairLostContent(of item: RemoteItem, _ options: ExaminationOptions) throws -> Finding? {
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

    private func takeAnew(_ item: RemoteItem) throws {
        let dropped = try index.write(.remote) { transaction in
            try transaction.forgetRemote(item.id)
            var settler = settler(transaction)
            try settler.receive(item)
            try settler.settleAll(limit: SyncLimits.settleBatch)
            return settler.dropped
        }
        discard(dropped)
    }

    /// Examines records of items that the cloud lacks. This device sent no deletion of them, so they are uploaded
    /// again.
    private func examineUnknownRecords(
        _ seen: Set<ItemID>, upTo revision: Revision, _ options: ExaminationOptions
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

    // MARK: The tree

    func examineItems(_ options: ExaminationOptions) throws -> [Finding] {
        var findings = try examineMissingItems(options)
        findings += try examineStrays(options)
        var key = ItemKey.root
        while true {
            let rows = try index.read { try $0.cleanRows(after: key, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { return findings }
            key = last.key
            for row in rows {
                if let finding = try examineItem(row, options) { findings.append(finding) }
            }
        }
    }

    private func examineMissingItems(_ options: ExaminationOptions) throws -> [Finding] {
        try index.read { try $0.recordsWithoutItem(limit: Diagnosis.maximumFindings) }.map { id in
            let name = try index.read { try $0.remote(id: id) }?.name
            if options.repairs { try settleAnew(id) }
            let isHere = try index.read { try $0.row(id: id) } != nil
            return Finding(
                .itemMissing, name.map { "\($0)" } ?? "\(id)", "item \(id) is at the cloud and missing here",
                options.repairs ? .repaired(isHere ? "added" : "added when its place is free") : .found)
        }
    }

    private func settleAnew(_ id: ItemID) throws {
        let dropped = try index.write(.remote) { transaction in
            try transaction.setState(id, .waiting)
            var settler = settler(transaction)
            try settler.review(id)
            try settler.settleAll(limit: SyncLimits.settleBatch)
            return settler.dropped
        }
        discard(dropped)
    }

    /// Items without a place that wait for nothing.
    private func examineStrays(_ options: ExaminationOptions) throws -> [Finding] {
        try index.read { try $0.strayRows(limit: Diagnosis.maximumFindings) }.compactMap { row in
            let isWaiting = try index.read { reader in
                try [.waiting, .awaitingParent, .awaitingPackage].contains { try reader.isRecord(row.id, $0) }
            }
            guard !isWaiting else { return nil }
            if options.repairs { try place(row) }
            return Finding(
                .itemStray, "\(row.id)", "it has no place in any folder",
                options.repairs ? .repaired("moved to its place at the cloud, or to the top folder") : .found)
        }
    }

    private func place(_ row: ItemRow) throws {
        if try index.read({ try $0.remote(id: row.id) })?.isDeleted == false, !row.dirty.contains(.place) {
            return try settleAnew(row.id)
        }
        try index.write(.remote) { transaction in
            guard let current = try transaction.row(key: row.key), current.entry == nil else { return }
            var next = current
            next.entry = ItemRow.Entry(parent: .root, name: ItemName(stored: Array("found \(row.key.rawValue)".utf8)))
            if !next.isExcluded {
                if next.dirty.isEmpty { next.dirtyOrder = try transaction.newDirtyOrder() }
                next.dirty.insert(.place)
            }
            try transaction.update(next, before: current)
            transaction.note(.added, before: nil, after: next)
        }
    }

    private func examineItem(_ row: ItemRow, _ options: ExaminationOptions) throws -> Finding? {
        let (known, isSettled, folder) = try index.read { reader in
            (
                try reader.remote(id: row.id), try reader.isRecord(row.id, .settled),
                try row.entry.flatMap { try reader.row(key: $0.parent) }
            )
        }
        // A deletion may wait: for a program that has the file open, for local changes in the folder, or for the rest
        // of a package.
        if let known, known.isDeleted, !isSettled { return nil }
        guard let known, !known.isDeleted else {
            guard try index.row(key: row.key) == row else { return nil }
            let name = try subject(row)
            let goesUp = options.repairs ? try index.write(.remote) { try $0.sendOrKeep(row) } : true
            let how = goesUp ? "the local item is uploaded again" : "an ignore rule excludes it from sync"
            return Finding(
                .itemUnknown, name, "the cloud has no such item", options.repairs ? .repaired(how) : .found)
        }
        guard isSettled, let entry = row.entry, let folder else { return nil }
        let what = row.differences(from: known, entry, folder)
        guard !what.isEmpty, try index.row(key: row.key) == row else { return nil }
        let name = try subject(row)
        if try isChangedWithoutMark(row, known) {
            if options.repairs { try markChanged(row) }
            return Finding(
                .itemDiffers, name, "it was changed here, and the index does not record that",
                options.repairs ? .repaired("uploaded as a new version") : .found)
        }
        if options.repairs { try show(known, in: row) }
        return Finding(
            .itemDiffers, name, "its \(what.joined(separator: ", ")) differs from the cloud",
            !options.repairs ? .found : try isAsItsRecord(row.key)
                ? .repaired("made equal to the cloud") : .unrepaired("set index.db aside and mount again"))
    }

    /// Whether the row matches its record. Records that wait to be shown do not count.
    private func isAsItsRecord(_ key: ItemKey) throws -> Bool {
        try index.read { reader in
            guard let row = try reader.row(key: key), row.dirty.isEmpty, let entry = row.entry,
                let known = try reader.remote(id: row.id), try reader.isRecord(row.id, .settled),
                let folder = try reader.row(key: entry.parent)
            else { return true }
            return row.differences(from: known, entry, folder).isEmpty
        }
    }

    /// Makes a clean row equal to its record.
    private func show(_ item: RemoteItem, in row: ItemRow) throws {
        try index.write(.remote) { transaction in
            guard var current = try transaction.row(key: row.key), current == row else { return }
            if current.kind != item.kind {
                try transaction.setKind(item.kind, of: current)
                transaction.note(.removed, before: current, after: nil)
                guard let anew = try transaction.row(key: row.key) else { return }
                current = anew
                transaction.note(.added, before: nil, after: current)
            }
            var next = Overlay.metadata(
                current, old: nil, new: item, keepTimes: current.kind == .directory,
                trustsPrivileges: configuration.trustsPrivileges)
            if current.kind == .file, let content = item.content, content.version == current.version {
                next.size = content.size
            }
            guard next != current else { return }
            try transaction.update(next, before: current)
            transaction.note(.attributes, before: current, after: next)
        }
        try settleAnew(row.id)
    }
}

extension IndexTransaction {
    /// - Returns: whether the item is uploaded. Otherwise it is excluded again, as before it lost that mark.
    fileprivate func sendOrKeep(_ row: ItemRow) throws -> Bool {
        guard try !wasKeptLocal(row) else {
            try keepLocal(row)
            return false
        }
        try sendWhatIsHere(row)
        return true
    }

    /// Uploads the whole local state of an item unknown to the cloud as new. A placeholder has none and is removed.
    fileprivate func sendWhatIsHere(_ row: ItemRow) throws {
        guard !row.isExcluded, row.key != .root else { return }
        if row.kind == .file, row.contentState != .complete {
            try delete(row)
            note(.removed, before: row, after: nil)
        } else {
            try sendAsNew(row)
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
