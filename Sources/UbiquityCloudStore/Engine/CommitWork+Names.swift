internal import UbiquityCore
internal import UbiquityWire

// Last phase: two items cannot have the same name. The item placed by this commit yields.
extension CommitWork {
    func settleNames() throws {
        var slots = NameSlots(work: self)
        // From the top downwards, because a merged folder takes its children along. Existing items come first, because
        // a new one can still be merged into them.
        let waiting = order.enumerated().filter { drafts[$0.element]?.needsSlot == true && isLive($0.element) }
        let sorted = waiting.sorted { left, right in
            let (a, b) = (rank(left.element), rank(right.element))
            return a != b ? a < b : left.offset < right.offset
        }
        for (_, id) in sorted { try settle(id, &slots) }
        try takeDeletedAlong()
        try redirectLinks()
    }

    /// Moves deleted items out of merged folders: they may be restored later, and then need an existing folder.
    private func takeDeletedAlong() throws {
        guard !mergedInto.isEmpty else { return }
        for id in order where drafts[id] != nil && !isLive(id) {
            try update(id) { draft in
                if let target = mergedInto[draft.record.parent] { draft.record.parent = target }
            }
        }
    }

    private func isLive(_ id: ItemID) -> Bool { drafts[id]?.record.isLive ?? false }

    private func rank(_ id: ItemID) -> Int {
        guard let draft = drafts[id] else { return 0 }
        // An item moved into a new folder waits until the folder is placed.
        let depth = creationDepth[id] ?? creationDepth[draft.record.parent].map { $0 + 1 }
            ?? (isNew(draft.record.parent) ? 1 : 0)
        return depth * 2 + (draft.original == nil ? 1 : 0)
    }

    private func isNew(_ id: ItemID) -> Bool { drafts[id].map { $0.original == nil } ?? false }

    private func settle(_ id: ItemID, _ slots: inout NameSlots) throws {
        try update(id) { draft in
            if let target = mergedInto[draft.record.parent] { draft.record.parent = target }
        }
        guard let draft = drafts[id] else { return }
        let ancestry = try ancestry(of: draft.record.parent)
        guard ancestry.depth < Limits.maximumDepth else {
            throw UbiquityError(.invalid, "item \(id) is more than \(Limits.maximumDepth) folders deep")
        }
        let place = Place(parent: draft.record.parent, name: draft.record.name)
        guard let holder = try slots.holder(of: place), holder != id else {
            slots.occupy(place, by: id)
            return try finish(id)
        }
        let isNew = draft.original == nil
        if isNew, try canMerge(draft.record, into: holder, underDocuments: ancestry.isUnderDocuments) {
            return try merge(id, into: holder)
        }
        // Two of three documents with one name may be equal: the order of arrival must not matter.
        let isEqual = { [self] (other: ItemID) in
            try isNew && draft.record.kind == .file && canMerge(draft.record, into: other, underDocuments: true)
        }
        switch try slots.slot(near: place, orWhere: isEqual) {
        case .takenByEqual(let other): try merge(id, into: other)
        case .free(let free):
            try update(id) { $0.record.name = free.name }
            slots.occupy(free, by: id)
            try finish(id)
        }
    }

    /// Gives a new file its content last: until here it could have been merged.
    private func finish(_ id: ItemID) throws {
        if drafts[id]?.original == nil { try makeFirstContent(of: id) }
    }

    /// Folders are always merged. Under `Documents/` a user must find two documents if they differ. Elsewhere a name is
    /// an identity to the app that made it, so two files are two versions of one.
    private func canMerge(_ new: ItemRecord, into holder: ItemID, underDocuments: Bool) throws -> Bool {
        guard let existing = try record(holder), existing.kind == new.kind else { return false }
        // A device that creates two of them keeps them side by side.
        guard new.kind == .directory || !isNew(holder) else { return false }
        return switch new.kind {
        case .directory: try !isPackage(new.id) || isWhole(new.id) && isEqual(new, existing, childrenOfNew())
        case .file: try !underDocuments || isEqual(new, existing, [:])
        // Both devices gave the same file the same name.
        case .symlink, .hardLink: existing.linkTarget == new.linkTarget
        case .fifo, .socket, .characterDevice, .blockDevice: false
        }
    }

    private func merge(_ id: ItemID, into holder: ItemID) throws {
        guard let position = positions[id], case .put(var fields) = request.changes[position].action else { return }
        drafts[id] = nil
        mergedInto[id] = holder
        outcomes[position] = .merged(into: holder)
        fields.place = nil
        fields.content?.baseVersion = nil
        // An announced content does not replace an existing one: it is judged when it arrives, which may be never.
        if fields.content?.manifest == nil { fields.content = nil }
        var change = request.changes[position]
        change.baseRevision = .zero
        try apply(fields, change, to: holder)
    }

    /// A folder's depth, and whether it is `Documents` directly below the top folder, or in it.
    private func ancestry(of folder: ItemID) throws -> Ancestry {
        if let known = ancestries[folder] { return known }
        guard folder != .root, let record = try record(folder) else {
            return Ancestry(depth: 0, isUnderDocuments: false)
        }
        // From here up to the first known folder; each folder is walked once per commit.
        var path: [ItemRecord] = [record], above: Ancestry?
        while let last = path.last, last.parent != .root, path.count <= Limits.maximumDepth {
            let parent = mergedInto[last.parent] ?? last.parent
            above = ancestries[parent]
            guard above == nil, let next = try self.record(parent) else { break }
            path.append(next)
        }
        var found = above
        for folder in path.reversed() {
            let next = found.map { Ancestry(depth: $0.depth + 1, isUnderDocuments: $0.isUnderDocuments) }
                ?? Ancestry(depth: 1, isUnderDocuments: folder.name.bytes == Array("Documents".utf8))
            ancestries[folder.id] = next
            found = next
        }
        return found ?? Ancestry(depth: 0, isUnderDocuments: false)
    }
}

struct Ancestry {
    /// Number of folders from the top one (not counted) to this one.
    let depth: Int
    let isUnderDocuments: Bool
}

/// The holders of names, with the commit's changes applied.
struct NameSlots {
    private let work: CommitWork
    private var holders: [Place: ItemID] = [:]
    /// The number to try next for a taken name: otherwise a thousand equal names would need a million tries.
    private var nextNumber: [Place: Int] = [:]

    init(work: CommitWork) { self.work = work }

    mutating func occupy(_ place: Place, by id: ItemID) { holders[place] = id }

    func holder(of place: Place) throws -> ItemID? {
        if let holder = holders[place] { return holder }
        guard let stored = try work.state.liveChild(of: place.parent, named: place.name) else { return nil }
        // An item of this commit counts where the commit places it: it has moved away, is deleted, or waits for its
        // turn. Or it stays, as an item does into which another was merged.
        guard let draft = work.drafts[stored] else { return stored }
        return draft.record.isLive && !draft.needsSlot ? stored : nil
    }

    enum Slot {
        case free(Place)
        case takenByEqual(ItemID)
    }

    /// A free slot: "name 2.ext", or 3, 4 … if that is taken too; or the first holder of such a name for which
    /// `isEqual` is true.
    ///
    /// The first `CloudLimits.comparedNames` are compared one by one. Beyond that, a free number is found in few steps.
    /// It follows a taken one, but a smaller free number may exist.
    mutating func slot(near place: Place, orWhere isEqual: (ItemID) throws -> Bool) throws -> Slot {
        var number = nextNumber[place] ?? 2
        let last = number + CloudLimits.comparedNames
        while number < last, let holder = try holder(of: numbered(place, number)) {
            if try isEqual(holder) { return .takenByEqual(holder) }
            number += 1
        }
        if number == last { number = try freeNumber(near: place, after: last - 1) }
        nextNumber[place] = number + 1
        return .free(numbered(place, number))
    }

    private func numbered(_ place: Place, _ number: Int) -> Place {
        Place(parent: place.parent, name: place.name.numbered(number))
    }

    /// - Parameter taken: a number that is taken.
    private func freeNumber(near place: Place, after taken: Int) throws -> Int {
        var taken = taken, step = 1
        while try holder(of: numbered(place, taken + step)) != nil {
            taken += step
            step *= 2
        }
        var free = taken + step
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2
            if try holder(of: numbered(place, middle)) == nil { free = middle } else { taken = middle }
        }
        return free
    }
}
