internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// `ubiquity doctor`: the index's records against the cloud, and the tree against the records.
extension SyncEngine {
    /// Reads everything that the cloud has up to where the feed was read here, and compares.
    /// - Parameter damaged: records that cannot be read: they are taken anew, which `examineFields` tells.
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
        // What was deleted meanwhile is in the cloud's feed; if that does not reach back so far, nobody can tell.
        do {
            let known = seen.union(try await changes(since: position.revision).keys)
            diagnosis.add(try await pool.run { try self.examineUnknownRecords(known, upTo: end, options) })
        } catch let error as UbiquityError where error.code == .feedCompacted {
            logger.info("records that only this device has are not examined", metadata: ["reason": "\(error)"])
        }
        diagnosis.add(try await examineRecordsAhead(ahead, after: end, options))
    }

    /// The items that have changed at the cloud since, as they are now.
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

    /// Of those items the index has a later record than the cloud: it heard of a change meanwhile, or is wrong and
    /// would take no news of the item.
    private func isAhead(of items: [RemoteItem], upTo revision: Revision) throws -> Set<ItemID> {
        let ahead = try items.filter { item in
            guard item.id != .root, item.revision <= revision else { return false }
            return try index.read { try $0.remote(id: item.id) }.map { $0.revision > item.revision } ?? false
        }
        return Set(ahead.map(\.id))
    }

    /// - Parameters:
    ///   - ahead: the cloud's records.
    ///   - revision: up to which they have been read.
    private func examineRecordsAhead(
        _ ahead: [ItemID: RemoteItem], after revision: Revision, _ options: ExaminationOptions
    ) async throws -> [Finding] {
        guard !ahead.isEmpty else { return [] }
        // Read before the cloud is asked: then it has all that they can be of.
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
                    "item \(item.id) at revision \(record.revision), which the cloud has not had",
                    options.repairs ? .repaired("taken from the cloud") : .found)
            }
        }
    }

    private static let copyOut = "copy it out of .versions where its content is here, or remove it there"

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
            // What is known of the content is more than the cloud has.
            case let known? where item.hasLostContent || known.isMoreAvailable(than: item):
                return try repairLostContent(of: item, options)
            // It says that there are more than it can tell of.
            case let known? where item.conflicts.count < min(item.conflictCount, conflicts.count)
                && known.conflictCount == item.conflictCount:
                return Finding(
                    .versionMissing, "\(item.name)", "the cloud has lost what it knew of a version in conflict",
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

    /// The content goes up as a new version where it is whole.
    private func repairLostContent(of item: RemoteItem, _ options: ExaminationOptions) throws -> Finding? {
        let (row, known) = try index.read { (try $0.row(id: item.id), try $0.remote(id: item.id)?.content) }
        // Of which version it is the cloud may not know any more.
        let isHere = row?.contentState == .complete && [item.content?.version, known?.version].contains(row?.version)
        // Another content is on its way up already.
        if let row, row.isDeleted || row.dirty.contains(.content) { return nil }
        var outcome = Finding.Outcome.found
        if options.repairs {
            if isHere, let row {
                try sendAgain(row, item)
                outcome = .repaired("sent again from here")
            } else {
                outcome = .unrepaired("its content is not here; run doctor on a device that has it")
            }
        }
        return Finding(.versionMissing, "\(item.name)", "the cloud has lost what it knew of its content", outcome)
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

    /// Records of items that the cloud does not have: it was told nothing of a deletion here, so they go up again.
    private func examineUnknownRecords(
        _ seen: Set<ItemID>, upTo revision: Revision, _ options: ExaminationOptions
    ) throws -> [Finding] {
        let live = try index.read { try $0.liveRecords() }
        return try live.filter { !seen.contains($0.key) && $0.value <= revision }.keys.sorted().compactMap { id in
            // The feed may have brought the deletion meanwhile.
            guard let known = try index.read({ try $0.remote(id: id) }), !known.isDeleted, known.revision <= revision
            else { return nil }
            let row = try index.read { try $0.row(id: id) }
            var outcome = Finding.Outcome.found
            if options.repairs, let row, row.kind == .file, row.contentState != .complete, !row.isDeleted {
                // What is known of it is all that there is.
                outcome = .unrepaired("its content is not here; run doctor on a device that has it")
            } else if options.repairs {
                try forget(known, row)
                outcome = .repaired("what is here of it goes up again")
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
                .itemMissing, name.map { "\($0)" } ?? "\(id)", "item \(id) is at the cloud and not here",
                options.repairs ? .repaired(isHere ? "it is here" : "it comes when there is a place") : .found)
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

    /// Items without a place, for which nothing waits.
    private func examineStrays(_ options: ExaminationOptions) throws -> [Finding] {
        try index.read { try $0.strayRows(limit: Diagnosis.maximumFindings) }.compactMap { row in
            let isWaiting = try index.read { reader in
                try [.waiting, .awaitingParent, .awaitingPackage].contains { try reader.isRecord(row.id, $0) }
            }
            guard !isWaiting else { return nil }
            if options.repairs { try place(row) }
            return Finding(
                .itemStray, "\(row.id)", "it has no place in any folder",
                options.repairs ? .repaired("put where the cloud has it, or into the top folder") : .found)
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
        // A deletion waits for a program that has the file open, what was changed in the folder, the rest of a package.
        if let known, known.isDeleted, !isSettled { return nil }
        guard let known, !known.isDeleted else {
            guard try index.row(key: row.key) == row else { return nil }
            let name = try subject(row)
            let goesUp = options.repairs ? try index.write(.remote) { try $0.sendOrKeep(row) } : true
            let how = goesUp ? "what is here of it goes up again" : "an ignore rule keeps it on this device"
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
                .itemDiffers, name, "it was changed here, and nothing says so",
                options.repairs ? .repaired("goes up as a new version") : .found)
        }
        if options.repairs { try show(known, in: row) }
        return Finding(
            .itemDiffers, name, "its \(what.joined(separator: ", ")) is not the cloud's",
            !options.repairs ? .found : try isAsItsRecord(row.key)
                ? .repaired("made as the cloud has it") : .unrepaired("set index.db aside and mount again"))
    }

    /// Whether nothing is left to repair: what waits to be shown does not count.
    private func isAsItsRecord(_ key: ItemKey) throws -> Bool {
        try index.read { reader in
            guard let row = try reader.row(key: key), row.dirty.isEmpty, let entry = row.entry,
                let known = try reader.remote(id: row.id), try reader.isRecord(row.id, .settled),
                let folder = try reader.row(key: entry.parent)
            else { return true }
            return row.differences(from: known, entry, folder).isEmpty
        }
    }

    /// Makes a clean row what its record says.
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
    /// - Returns: whether it goes up; else it stays here only, as before it lost the mark that says so.
    fileprivate func sendOrKeep(_ row: ItemRow) throws -> Bool {
        guard try !wasKeptLocal(row) else {
            try keepLocal(row)
            return false
        }
        try sendWhatIsHere(row)
        return true
    }

    /// Of an item that the cloud does not know: all that is here goes up as new; a placeholder stands for nothing.
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

extension ItemRow {
    /// What of a clean item is not as the record says.
    func differences(from item: RemoteItem, _ entry: Entry, _ folder: ItemRow) -> [String] {
        var found = [String]()
        if kind != item.kind { found.append("kind") }
        if folder.id != item.parent { found.append("folder") }
        if entry.name != item.name { found.append("name") }
        if kind == .symlink || kind == .hardLink, linkTarget != item.linkTarget { found.append("target") }
        // What a hard link leads to has the rest.
        guard kind != .hardLink else { return found }
        if !showsMode(of: item) { found.append("mode") }
        if xattrs != item.xattrs { found.append("attributes") }
        // A folder's times change with what is in it.
        if kind != .directory, modifiedAt != item.modifiedAt { found.append("time") }
        if kind == .file, version != item.content?.version {
            found.append("version")
        } else if kind == .file, size != item.content?.size {
            found.append("size")
        }
        return found
    }
}

extension RemoteItem {
    /// Whether it tells the same, but for conflict versions, which are asked for by themselves.
    func isSame(as other: RemoteItem) -> Bool {
        revision == other.revision && kind == other.kind && isDeleted == other.isDeleted && parent == other.parent
            && name == other.name && mode == other.mode && modifiedAt == other.modifiedAt && xattrs == other.xattrs
            && createdAt == other.createdAt && conflictCount == other.conflictCount
            // Versions expire without a commit, so devices are not told.
            && (hasHistory || !other.hasHistory)
            && linkTarget == other.linkTarget && content?.version == other.content?.version
            && content?.size == other.content?.size && content?.isAvailable == other.content?.isAvailable
            && content?.manifest == other.content?.manifest
    }
}

extension RemoteItem {
    /// Whether the cloud had the content and says that it has not: what has once come does not go.
    fileprivate func isMoreAvailable(than item: RemoteItem) -> Bool {
        guard let known = content, let told = item.content else { return false }
        return known.version == told.version && known.isAvailable && !told.isAvailable
    }
}
