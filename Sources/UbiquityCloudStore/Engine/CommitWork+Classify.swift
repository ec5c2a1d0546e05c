internal import UbiquityCore
internal import UbiquityWire

// First phase: sorts the changes into those of known items, creations, and those that cannot be applied.
extension CommitWork {
    func classifyChanges() throws {
        var creations: [ItemID: Int] = [:]
        positions.reserveCapacity(request.changes.count)
        for (position, change) in request.changes.enumerated() {
            guard positions.updateValue(position, forKey: change.id) == nil else {
                throw UbiquityError(.invalid, "a commit has two changes of item \(change.id)")
            }
            if let record = try known(change) {
                guard record.kind == change.kind else {
                    throw UbiquityError(.invalid, "item \(change.id) is a \(record.kind), not a \(change.kind)")
                }
                addDraft(ItemDraft(original: record, record: record))
            } else if change.baseRevision == .zero, case .put(let fields) = change.action, fields.place != nil {
                creations[change.id] = position
            } else {
                outcomes[position] = .unknownItem
            }
        }
        try create(creations)
        try dropLinksToUnknownItems()
        try dropMovesToUnknownParents()
    }

    /// The changed item. An item with a damaged row counts as missing for a change that sends the complete item; for
    /// any other change it is an error.
    private func known(_ change: ItemChange) throws -> ItemRecord? {
        do { return try record(change.id) } catch let error as UbiquityError where error.code == .damaged {
            guard change.baseRevision == .zero, case .put(let fields) = change.action, fields.place != nil else {
                throw error
            }
            damaged.insert(change.id)
            return nil
        }
    }

    /// Creates items from the known parents downwards. An item that is not reached has an unknown parent.
    private func create(_ creations: [ItemID: Int]) throws {
        let ordered = creations.values.sorted()
        var waiting: [ItemID: [Int]] = [:]
        var reached: [Int] = []
        for position in ordered {
            guard let parent = place(position)?.parent else { continue }
            if creations[parent] != nil {
                waiting[parent, default: []].append(position)
            } else if try isDirectory(parent) {
                reached.append(position)
            }
        }
        for position in ordered { outcomes[position] = .unknownItem }
        var next = 0
        while next < reached.count {
            let position = reached[next]
            next += 1
            let change = request.changes[position]
            if try isMergedAlready(change, position) { continue }
            outcomes[position] = .applied(change.id)
            try createItem(change)
            guard let children = waiting[change.id] else { continue }
            guard change.kind == .directory else { throw notADirectory(change.id) }
            for child in children { creationDepth[request.changes[child].id] = (creationDepth[change.id] ?? 0) + 1 }
            reached += children
        }
    }

    /// Whether another item has the creation's content: an earlier commit merged the creation into that item, and the
    /// device never got the answer. The creation stays merged, wherever the other item was moved since.
    private func isMergedAlready(_ change: ItemChange, _ position: Int) throws -> Bool {
        guard case .put(var fields) = change.action, let content = fields.content,
            let known = try version(content.version), known.item != change.id, known.device == request.device,
            try record(known.item) != nil
        else { return false }
        mergedInto[change.id] = known.item
        outcomes[position] = .merged(into: known.item)
        fields.place = nil
        try apply(fields, change, to: known.item)
        return true
    }

    private func createItem(_ change: ItemChange) throws {
        guard case .put(let fields) = change.action, let place = fields.place, let mode = fields.mode,
            let modifiedAt = fields.modifiedAt
        else { throw UbiquityError(.invalid, "the creation of item \(change.id) lacks its mode or its times") }
        var record = ItemRecord(
            id: change.id, kind: change.kind, revision: revision.next, parent: place.parent, name: place.name,
            mode: mode, createdAt: fields.createdAt ?? modifiedAt, modifiedAt: modifiedAt,
            stamps: ItemStamps(stamp(of: change)))
        record.unknownFields = try UnknownFields.merge(fields.unknownFields, into: [])
        applyXattrs(fields, change, to: &record)
        switch change.kind {
        case .directory: break
        case .symlink, .hardLink:
            guard let target = fields.linkTarget else {
                throw UbiquityError(.invalid, "the creation of link \(change.id) lacks its target")
            }
            record.linkTarget = target
        case .fifo, .socket, .characterDevice, .blockDevice:
            throw UbiquityError(.invalid, "item \(change.id) is a special file, which stays on its device")
        case .file:
            guard fields.content != nil else {
                throw UbiquityError(.invalid, "the creation of file \(change.id) lacks its content")
            }
        }
        if damaged.contains(change.id) {
            let conflicts = try state.conflicts(of: change.id)
            record.conflictCount = conflicts.count
            record.conflictBytes = conflicts.reduce(0) { $0 + $1.size }
            record.hasHistory = try !state.history(of: change.id).isEmpty
        }
        addDraft(ItemDraft(original: nil, record: record, needsSlot: true))
    }

    private func dropMovesToUnknownParents() throws {
        for (position, change) in request.changes.enumerated() where isApplied(position) {
            guard let parent = place(position)?.parent, drafts[change.id]?.original != nil else { continue }
            if try !isDirectory(parent) { outcomes[position] = .unknownItem }
        }
    }

    func place(_ position: Int) -> Place? {
        if case .put(let fields) = request.changes[position].action { fields.place } else { nil }
    }

    /// False if the cloud does not know the item; throws if it is not a directory.
    private func isDirectory(_ parent: ItemID) throws -> Bool {
        guard let record = try record(parent) else { return false }
        guard record.kind == .directory else { throw notADirectory(parent) }
        return true
    }

    private func notADirectory(_ id: ItemID) -> UbiquityError {
        UbiquityError(.invalid, "item \(id) is named as a parent and is not a directory")
    }
}
