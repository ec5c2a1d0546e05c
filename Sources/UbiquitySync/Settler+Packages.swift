package import UbiquityCore
package import UbiquityIndex

// A package is shown in one state. What changed in it elsewhere is shown when the contents that take the place of ones
// that are here have come, all of them; till then its records are held, and it is what it was. They are held too while
// changes made here have not gone up: the cloud says then which of the two states is to stand.
extension Settler {
    /// Takes in a page of the feed, which never ends within a commit.
    package mutating func receive(page items: [RemoteItem], _ index: ItemIndex) throws {
        var held = Set(try transaction.heldPackages(index).keys)
        let replaced = try items.filter { item in
            guard item.kind == .file, !item.isDeleted else { return false }
            return try transaction.row(id: item.id)?.awaitsContent(of: item) ?? false
        }
        let mayMeet = try mayMeetChanges(items)
        guard mayMeet || !held.isEmpty || !replaced.isEmpty else { return try items.forEach { try receive($0) } }
        let owners = try owners(of: items, index)
        if mayMeet, !owners.isEmpty { held.formUnion(try transaction.changedPackages(index)) }
        held.formUnion(replaced.compactMap { owners[$0.id] })
        for item in items {
            if let owner = owners[item.id], held.contains(owner) { try hold(item) } else { try receive(item) }
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

    /// The packages of the records, by where they are now, or else by where they will be.
    private func owners(of items: [RemoteItem], _ index: ItemIndex) throws -> [ItemID: ItemKey] {
        var finder = PackageFinder(transaction, index)
        let new = Dictionary(items.map { ($0.id, $0) }) { first, _ in first }
        var owners = [ItemID: ItemKey]()
        for item in items {
            if let row = try transaction.row(id: item.id), row.entry != nil {
                owners[item.id] = try finder.package(of: row)
                // What comes into a package from outside waits for the rest of its new state.
                if owners[item.id] != nil || item.isDeleted { continue }
            }
            // The folders above may be in the same page.
            var parent = item.parent, steps = 0
            while steps < Limits.maximumDepth, let above = new[parent], try transaction.row(id: parent) == nil {
                parent = above.parent
                steps += 1
            }
            owners[item.id] = try finder.package(ofRemote: parent)
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
        for id in records { try settle(id) }
    }
}

extension IndexReader {
    /// The records that are held, by their package.
    package func heldPackages(_ index: ItemIndex) throws -> [ItemKey: [ItemID]] {
        let ids = try records(.awaitingPackage, limit: .max)
        guard !ids.isEmpty else { return [:] }
        var finder = PackageFinder(self, index)
        var result = [ItemKey: [ItemID]]()
        for id in ids {
            var owner: ItemKey?
            if let row = try row(id: id), row.entry != nil { owner = try finder.package(of: row) }
            if owner == nil, let remote = try remote(id: id) { owner = try finder.package(ofRemote: remote.parent) }
            // What is in no package any more is waited for by nobody.
            result[owner ?? .root, default: []].append(id)
        }
        return result
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
