internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// `ubiquity doctor`: checks the backing files.
extension SyncEngine {
    /// An unreferenced content younger than this, in seconds, may be under construction. It is then checked once more.
    private static let unusedAge: Double = 10

    func examineContents(_ options: ExaminationOptions) throws -> (findings: [Finding], count: Int) {
        var findings = [Finding](), count = 0, key = ItemKey(0)
        while true {
            let rows = try index.read { try $0.rowsWithContent(after: key, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { return (findings, count) }
            key = last.key
            for row in rows {
                count += 1
                if let finding = try examineRights(of: row, options) { findings.append(finding) }
                if let finding = try examineContent(of: row, options) { findings.append(finding) }
            }
        }
    }

    /// Checks that only the daemon's user has access to a backing file.
    private func examineRights(of row: ItemRow, _ options: ExaminationOptions) throws -> Finding? {
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

    private func examineContent(of row: ItemRow, _ options: ExaminationOptions) throws -> Finding? {
        guard let content = row.content, try !isInUse(row) else { return nil }
        guard let (kind, detail) = try problem(with: content, of: row, options) else { return nil }
        return try whileClosed(row.key) {
            // A change or removal during the check explains the difference.
            guard let current = try index.row(key: row.key), current.content == content, !current.isWriting,
                current.generation == row.generation, current.contentState == row.contentState
            else { return nil }
            let outcome = options.repairs ? try repair(content, of: current, kind) : .found
            return Finding(kind, try subject(row), detail, outcome)
        } ?? nil
    }

    func isInUse(_ row: ItemRow) throws -> Bool {
        try row.isWriting || fetch.downloads.download(of: row.key) != nil || whileClosed(row.key) { true } == nil
    }

    /// Runs `body` while the item is closed. Nil if a program has the item open.
    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? {
        guard let openItems else { return try body() }
        return try openItems.whileClosed(key, body)
    }

    private func problem(
        with content: ContentID, of row: ItemRow, _ options: ExaminationOptions
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
            let manifest = try expectedManifest(row, record), let damage = try damage(of: content, manifest)
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

    /// The chunks of the local version, or nil if they are unknown.
    private func expectedManifest(_ row: ItemRow, _ record: ContentRecord?) throws -> Manifest? {
        if let record, record.version == row.version { return record.manifest }
        let known = try index.read { try $0.remote(id: row.id) }?.content
        return known?.version == row.version ? known?.manifest : nil
    }

    func damage(of content: ContentID, _ manifest: Manifest) throws -> String? {
        let file: FileDescriptor
        do { file = try store.open(content, writable: false) } catch {
            return error.code == .notFound ? nil : "it cannot be read: \(error.message)"
        }
        let layout = try ChunkLayout(manifest)
        var bad = 0
        for index in manifest.indices {
            let range = layout.range(of: index)
            do {
                let bytes = try file.read(count: range.count, at: range.lowerBound)
                if bytes.count != range.count || ChunkNaming.name(of: bytes) != manifest[index].id { bad += 1 }
            } catch { bad += 1 }
        }
        return bad == 0 ? nil : "\(bad) of \(manifest.count) chunks are damaged"
    }

    /// Whether content and time both differ from the version's, and the index has the new ones. Then a program has
    /// changed the file, and only the dirty bit is lost.
    func isChangedWithoutMark(_ row: ItemRow, _ known: RemoteItem) throws -> Bool {
        guard row.kind == .file, row.contentState == .complete, row.modifiedAt != known.modifiedAt,
            let version = known.content, version.version == row.version,
            let content = row.content, let status = try store.status(of: content), status.kind == .file,
            status.size == row.size
        else { return false }
        guard status.size == version.size else { return true }
        let record = try index.read { try $0.contentRecord(content) }
        guard let manifest = try expectedManifest(row, record) else { return false }
        return try damage(of: content, manifest) != nil
    }

    func markChanged(_ row: ItemRow) throws {
        _ = try index.noteWriting(
            ino: row.ino, changed: true, size: row.size, modifiedAt: row.modifiedAt, stillOpen: false)
    }

    // MARK: Repairing

    private func repair(_ content: ContentID, of row: ItemRow, _ kind: Finding.Kind) throws -> Finding.Outcome {
        let isHere = kind != .contentMissing
        if row.contentState == .partial {
            if isHere { try store.copyAside(content) }
            let isDropped = try ContentPlacement(context: context).dropPartial(row, content)
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
            guard !row.isExcluded, try powerLoss.hasVersionThere(row) else {
                return .unrepaired("it was never uploaded and is lost; remove the file, or write it again")
            }
            try powerLoss.reviewChangedContent(row)
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
        problems.clear(.download, of: row.key)
    }

    // MARK: Unreferenced contents

    func examineUnusedContents(_ options: ExaminationOptions) async throws -> [Finding] {
        var unused = try await pool.run { try self.unusedContents(leavesLeftovers: options.leavesLeftovers) }
        if !options.isAlone, !unused.isEmpty {
            let limit = timekeeper.now().advanced(bySeconds: -Self.unusedAge)
            if unused.contains(where: { $0.status.changedAt > limit }) {
                try await timekeeper.sleep(for: .seconds(Self.unusedAge))
            }
            let still = Set(try await pool.run { try self.unusedContents(leavesLeftovers: false) }.map(\.content))
            unused.removeAll { !still.contains($0.content) }
        }
        return try await pool.run { [unused] in
            try unused.map { content, status in
                let outcome: Finding.Outcome =
                    options.repairs ? .repaired("set aside as \(try self.store.setAside(content))") : .found
                return Finding(.contentUnused, "content \(content)", "\(status.size) bytes without an item", outcome)
            } + self.examineStrayFiles(options)
        }
    }

    /// Contents that no item references. Omits empty ones: files are created in advance, and the next start removes
    /// unused ones.
    func unusedContents(leavesLeftovers: Bool) throws -> [(content: ContentID, status: FileStatus)] {
        let files = try store.all()
        let used = try index.read { try $0.contentsInUse() }
        return try files.compactMap { content in
            guard !used.contains(content), !store.isRetired(content), !fetch.inUse.contains(content),
                let status = try store.status(of: content), status.size > 0,
                try index.read({ try $0.row(content: content) }) == nil,
                try !leavesLeftovers || index.read({ try $0.hadItem(content) })
            else { return nil }
            return (content, status)
        }
    }

    /// Whether the last process was killed. Contents that it was about to remove, or had just created, are removed by
    /// the next mount (`recover`). False if the index is new or has lost its records of them.
    func hasLeftovers() throws -> Bool {
        try !index.hasLostJournal && index.read { try $0.lastBoot() != nil && !$0.hasEnded() }
    }

    /// Files in the store's folders that are no contents, or are in the wrong folder.
    private func examineStrayFiles(_ options: ExaminationOptions) throws -> [Finding] {
        // During a mount, the mount command has reported these.
        let before = (options.isAlone && !options.isFurtherLook ? store.movedAside : []).map { name, path in
            Finding(.contentUnused, "content/\(name)", "it is not a folder", .repaired("set aside as \(path)"))
        }
        return try before + store.strayFiles().map { name in
            let outcome: Finding.Outcome =
                options.repairs ? .repaired("set aside as \(try store.setAside(stray: name))") : .found
            return Finding(.contentUnused, "content/\(name)", "it is not a content", outcome)
        }
    }
}
