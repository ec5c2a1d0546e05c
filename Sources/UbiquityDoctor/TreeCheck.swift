internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// Compares the tree with the index's records.
struct TreeCheck: Check {
    let context: CheckContext

    func run() throws -> [Finding] {
        var findings = try examineMissingItems()
        findings += try examineStrays()
        var key = ItemKey.root
        while true {
            let rows = try index.read { try $0.cleanRows(after: key, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { return findings }
            key = last.key
            for row in rows {
                if let finding = try examineItem(row) { findings.append(finding) }
            }
        }
    }

    private func examineMissingItems() throws -> [Finding] {
        try index.read { try $0.recordsWithoutItem(limit: Diagnosis.maximumFindings) }.map { id in
            let name = try index.read { try $0.remote(id: id) }?.name
            if options.repairs { try device.placeAgain(id) }
            let isHere = try index.read { try $0.row(id: id) } != nil
            return Finding(
                .itemMissing, name.map { "\($0)" } ?? "\(id)", "item \(id) is at the cloud and missing here",
                options.repairs ? .repaired(isHere ? "added" : "added when its place is free") : .found)
        }
    }

    /// Items without a place that wait for nothing.
    private func examineStrays() throws -> [Finding] {
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
            return try device.placeAgain(row.id)
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

    private func examineItem(_ row: ItemRow) throws -> Finding? {
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
        if try ContentVerifier(context: context).isChangedWithoutMark(row, known) {
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
        try device.placeAgain(row.id)
    }
}
