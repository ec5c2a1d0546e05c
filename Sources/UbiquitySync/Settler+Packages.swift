package import UbiquityCore
package import UbiquityIndex

// A package is shown in one state. What changed in it elsewhere is shown when the contents that take the place of ones
// that are here have come, all of them; till then its records are held, and it is what it was. They are held too while
// changes made here have not gone up: the cloud says then which of the two states is to stand.
extension Settler {
    /// Takes in a page of the feed, which never ends within a commit.
    /// - Parameter isLast: Otherwise more pages follow, and all that the page tells of packages is held: an item stands
    ///   in the feed once, where it was changed last, so that what one commit changed in a package may be on several.
    package mutating func receive(page items: [RemoteItem], _ index: ItemIndex, isLast: Bool = true) throws {
        var held = Set(try transaction.heldPackages(index).keys)
        let replaced = try items.filter { item in
            guard item.kind == .file, !item.isDeleted else { return false }
            return try transaction.row(id: item.id)?.awaitsContent(of: item) ?? false
        }
        let mayMeet = try mayMeetChanges(items), holdsAll = try !isLast && transaction.hasBeenCaughtUp()
        guard mayMeet || holdsAll || !held.isEmpty || !replaced.isEmpty else {
            return try items.forEach { try receive($0) }
        }
        try receiveNewPackages(items, index)
        let owners = try owners(of: items, index)
        if holdsAll { for owner in owners.values { held.formUnion(owner) } }
        if mayMeet, !owners.isEmpty { held.formUnion(try transaction.changedPackages(index)) }
        for item in replaced { if let owner = owners[item.id]?.first { held.insert(owner) } }
        for item in items {
            if owners[item.id]?.contains(where: held.contains) == true { try hold(item) } else { try receive(item) }
        }
    }

    /// Folders that become packages with this page do so first: what else it tells is about the package's members.
    private mutating func receiveNewPackages(_ items: [RemoteItem], _ index: ItemIndex) throws {
        for item in items where item.kind == .directory && !item.isDeleted {
            guard index.packages.isPackage(item.name, item.xattrs), let row = try transaction.row(id: item.id),
                row.entry != nil, !row.isDeleted
            else { continue }
            var finder = PackageFinder(transaction, index)
            // One that is in a package, or comes into one, changes with the rest of that.
            guard try finder.package(of: row) == nil, try finder.package(ofRemote: item.parent) == nil else { continue }
            try receive(item)
        }
    }

    /// Whether the page may be about what was changed here too. Asked first, as most pages tell what this device has
    /// just sent, and many changes may wait. While the container is listed for the first time nothing is shown whole.
    private func mayMeetChanges(_ items: [RemoteItem]) throws -> Bool {
        guard try transaction.hasBeenCaughtUp() else { return false }
        let isChanged = try !transaction.dirtyRows(after: 0, limit: 1).isEmpty || !transaction.openForWriting().isEmpty
        return try isChanged && items.contains { item in
            // What a snapshot lacks was deleted at a revision that nobody knows any more.
            try transaction.remote(id: item.id).map { $0.revision < item.revision || item.isDeleted && !$0.isDeleted }
                ?? true
        }
    }

    mutating func isHeld(_ id: ItemID) throws -> Bool {
        if holdsPackages == nil { holdsPackages = try !transaction.records(.awaitingPackage, limit: 1).isEmpty }
        return try holdsPackages == true && transaction.isRecord(id, .awaitingPackage)
    }

    /// The packages of the records: where they are now, and where they will be.
    private func owners(of items: [RemoteItem], _ index: ItemIndex) throws -> [ItemID: [ItemKey]] {
        var finder = PackageFinder(transaction, index)
        let new = Dictionary(items.map { ($0.id, $0) }) { first, _ in first }
        var owners = [ItemID: [ItemKey]]()
        for item in items {
            if let row = try transaction.row(id: item.id), row.entry != nil {
                if let owner = try finder.package(of: row) { owners[item.id] = [owner] }
                // What comes into a package from outside waits for the rest of its new state.
                if item.isDeleted { continue }
            }
            // The folders above may be in the same page.
            var parent = item.parent, steps = 0
            while steps < Limits.maximumDepth, let above = new[parent], try transaction.row(id: parent) == nil {
                parent = above.parent
                steps += 1
            }
            if let owner = try finder.package(ofRemote: parent), owners[item.id] != [owner] {
                owners[item.id, default: []].append(owner)
            }
        }
        return owners
    }

    mutating func hold(_ item: RemoteItem) throws {
        let old = try transaction.remote(id: item.id)
        if let old, old.revision >= item.revision, old.isDeleted == item.isDeleted {
            return try transaction.noteInSnapshot(item.id)
        }
        holdsPackages = true
        try transaction.setRemote(item, state: .awaitingPackage)
        // Versions lie beside what is shown: they are told of at once.
        try noteVersions(of: item, old: old)
    }

    /// Shows what was held of a package.
    package mutating func release(_ records: [ItemID]) throws {
        for id in records { try transaction.setState(id, .waiting) }
        for id in records {
            if let item = try transaction.remote(id: id) { try overlay(item, old: item) }
        }
        for id in records {
            try settle(id)
            if let item = try transaction.remote(id: id) { try settleWaiting(in: item) }
        }
    }
}

extension IndexReader {
    /// The records that are held, by their package.
    package func heldPackages(_ index: ItemIndex) throws -> [ItemKey: [ItemID]] {
        let ids = try records(.awaitingPackage, limit: .max)
        guard !ids.isEmpty else { return [:] }
        var finder = PackageFinder(self, index), changed: Set<ItemKey>?
        var result = [ItemKey: [ItemID]]()
        for id in ids {
            let (here, there) = try packages(ofHeld: id, &finder)
            var owner = here ?? there
            // What goes from one package to another waits for both.
            if let here, let there, here != there {
                let known = try changed ?? changedPackages(index)
                changed = known
                if !known.contains(here) { owner = there }
            }
            // What is in no package any more is waited for by nobody.
            result[owner ?? .root, default: []].append(id)
        }
        return result
    }

    /// Of a package's records those that wait for another package as well: they come into it, and it has changes of
    /// its own that have not gone up.
    package func heldForOthers(
        _ records: [ItemID], than packages: Set<ItemKey>, _ index: ItemIndex
    ) throws -> Set<ItemID> {
        var finder = PackageFinder(self, index), changed: Set<ItemKey>?
        var result = Set<ItemID>()
        for id in records {
            guard let there = try self.packages(ofHeld: id, &finder).there, !packages.contains(there) else { continue }
            let known = try changed ?? changedPackages(index)
            changed = known
            if known.contains(there) { result.insert(id) }
        }
        return result
    }

    private func packages(
        ofHeld id: ItemID, _ finder: inout PackageFinder
    ) throws -> (here: ItemKey?, there: ItemKey?) {
        var here: ItemKey?, there: ItemKey?
        if let row = try row(id: id), row.entry != nil { here = try finder.package(of: row) }
        if let remote = try remote(id: id), here == nil || !remote.isDeleted {
            there = try finder.package(ofRemote: remote.parent)
        }
        return (here, there)
    }
}

extension ItemRow {
    /// Whether a content is here that the record's takes the place of.
    func awaitsContent(of item: RemoteItem) -> Bool {
        guard !item.isDeleted, !isDeleted, kind == .file, contentState == .complete, !dirty.contains(.content),
            let content = item.content
        else { return false }
        return content.version != version
    }
}
