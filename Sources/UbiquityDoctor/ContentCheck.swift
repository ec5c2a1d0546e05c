internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

/// Checks the backing files of the items' contents.
struct ContentCheck: Check {
    let context: CheckContext

    private var verifier: ContentVerifier { ContentVerifier(context: context) }

    func run() throws -> (findings: [Finding], count: Int) {
        var findings = [Finding](), count = 0, key = ItemKey(0)
        while true {
            let rows = try index.read { try $0.rowsWithContent(after: key, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { return (findings, count) }
            key = last.key
            for row in rows {
                count += 1
                if let finding = try examineRights(of: row) { findings.append(finding) }
                if let finding = try examineContent(of: row) { findings.append(finding) }
            }
        }
    }

    /// Checks that only the daemon's user has access to a backing file.
    private func examineRights(of row: ItemRow) throws -> Finding? {
        guard let content = row.content, let status = try store.status(of: content), status.isFile,
            try !store.hasOwnRights(status)
        else { return nil }
        var outcome = Finding.Outcome.found
        if options.repairs {
            do throws(UbiquityError) {
                try store.reclaim(content)
                outcome = .repaired("only the daemon has access again")
            } catch {
                let owner = try store.owner()
                outcome = .unrepaired("\(error.message); as root: chown \(owner) \(store.path(of: content))")
            }
        }
        let rights = "\(String(status.permissions, radix: 8)) of user \(status.user)"
        return Finding(.contentRights, try subject(row), "content \(content) has the rights \(rights)", outcome)
    }

    private func examineContent(of row: ItemRow) throws -> Finding? {
        guard let content = row.content, try !isInUse(row) else { return nil }
        guard let (kind, detail) = try problem(with: content, of: row) else { return nil }
        return try device.whileClosed(row.key) {
            // A change or removal during the check explains the difference.
            guard let current = try index.row(key: row.key), current.content == content, !current.isWriting,
                current.generation == row.generation, current.contentState == row.contentState
            else { return nil }
            let outcome = options.repairs ? try repair(content, of: current, kind) : .found
            return Finding(kind, try subject(row), detail, outcome)
        } ?? nil
    }

    private func problem(
        with content: ContentID, of row: ItemRow
    ) throws -> (Finding.Kind, String)? {
        guard let status = try store.status(of: content) else {
            return (.contentMissing, "content \(content) is missing")
        }
        if status.kind != .file {
            if options.repairs { try store.setAside(content) }
            let there = status.isDirectory ? "a folder" : "a special file"
            return (.contentMissing, "\(there) is in the place of content \(content)")
        }
        let record = try index.read { try $0.contentRecord(content) }
        let size = row.contentState == .partial ? record?.size ?? row.size : try expectedSize(of: row)
        guard status.size == size else {
            return (.contentSize, "content \(content) has \(status.size) bytes instead of \(size)")
        }
        guard options.readsAll, row.contentState == .complete, !row.dirty.contains(.content), !row.isExcluded,
            let manifest = try verifier.expectedManifest(row, record),
            let damage = try verifier.damage(of: content, manifest)
        else { return nil }
        return (.contentDamaged, "content \(content): \(damage)")
    }

    /// The size by the record for an unchanged item, because the row may be wrong.
    private func expectedSize(of row: ItemRow) throws -> Int64 {
        guard row.dirty.isEmpty, !row.isExcluded, let known = try index.read({ try $0.remote(id: row.id) })?.content,
            known.version == row.version
        else { return row.size }
        return known.size
    }

    // MARK: Repairing

    private func repair(_ content: ContentID, of row: ItemRow, _ kind: Finding.Kind) throws -> Finding.Outcome {
        let isHere = kind != .contentMissing
        if row.contentState == .partial {
            if isHere { try store.copyAside(content) }
            let isDropped = try device.dropPartial(row, content)
            return .repaired(isDropped ? "it is a placeholder again" : "the download has completed meanwhile")
        }
        if row.dirty.contains(.content) || row.isExcluded { return try repairOwn(row, content, isHere: isHere) }
        let known = try index.read { try $0.remote(id: row.id) }
        guard let version = known?.content, known?.isDeleted == false, version.isAvailable,
            version.version == row.version
        else { return .unrepaired("the cloud does not have this version; the local content was left unchanged") }
        if isHere { try store.copyAside(content) }
        try makeIncomplete(row, content, isHere: isHere)
        return .repaired(
            isHere ? "damaged chunks are downloaded; a copy is set aside" : "the content is downloaded again")
    }

    /// Repairs a content that only this device has.
    private func repairOwn(_ row: ItemRow, _ content: ContentID, isHere: Bool) throws -> Finding.Outcome {
        guard isHere else {
            guard !row.isExcluded, try device.hasVersionAtCloud(row) else {
                return .unrepaired("it was never uploaded and is lost; remove the file, or write it again")
            }
            try device.reviewChangedContent(row)
            return .repaired("the file has the cloud's version; later local changes are lost")
        }
        guard let status = try store.status(of: content) else { return .found }
        if row.isExcluded {
            try index.write(.startup) { transaction in
                var next = row
                next.size = status.size
                try transaction.update(next, before: row)
            }
        } else {
            _ = try index.noteWriting(
                ino: row.ino, changed: true, size: status.size, modifiedAt: status.modifiedAt, stillOpen: false)
        }
        return .repaired("the content on the disk is used")
    }

    /// Marks a content for completion from the cloud. Its intact chunks remain.
    private func makeIncomplete(_ row: ItemRow, _ content: ContentID, isHere: Bool) throws {
        let record = try index.read { try $0.contentRecord(content) }
        try index.write(.remote) { transaction in
            guard let current = try transaction.row(key: row.key), current.content == content else { return }
            var next = current
            if isHere, record?.version == row.version {
                next.contentState = .partial
            } else {
                next.content = nil
                next.contentState = .none
                try transaction.forgetContent(content)
            }
            next.flags.insert(.downloadRequested)
            try transaction.update(next, before: current)
            try transaction.reviewAwaitedContent(of: row.id)
            transaction.note(.attributes, before: current, after: next)
        }
        if isHere {
            if let record, record.version == row.version {
                // Otherwise the next look would report it again.
                try store.resize(content, to: record.size)
            } else {
                try store.setAside(content)
            }
        }
        device.retryDownload(of: row.key)
    }
}
