package import UbiquityCore
package import UbiquityIndex

// A package shows one consistent state. Remote changes in it are shown once all contents that replace local ones are
// downloaded. Until then its records are held, and it shows its old state. They are also held while local changes are
// not uploaded: the cloud then decides which of the two states wins.
extension Settler {
    /// Applies a page of the feed, which never ends within a commit.
    /// - Parameter isLast: false if more pages follow. Then all records of packages are held: an item is in the feed
    ///   once, at its last change, so one commit's changes of a package may be on several pages.
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

    /// Applies folders that become packages with this page first, because other records of the page concern their
    /// members.
    private mutating func receiveNewPackages(_ items: [RemoteItem], _ index: ItemIndex) throws {
        for item in items where item.kind == .directory && !item.isDeleted {
            guard index.packages.isPackage(item.name, item.xattrs), let row = try transaction.row(id: item.id),
                row.entry != nil, !row.isDeleted
            else { continue }
            var finder = PackageFinder(transaction, index)
            // A folder in a package, or moved into one, changes with the rest of that package.
            guard try finder.package(of: row) == nil, try finder.package(ofRemote: item.parent) == nil else { continue }
            try receive(item)
        }
    }

    /// Whether the page may concern locally changed items. Checked first, because most pages report what this device
    /// has just sent, and there may be many changes. During the first listing of the container, packages are not held.
    private func mayMeetChanges(_ items: [RemoteItem]) throws -> Bool {
        guard try transaction.hasBeenCaughtUp() else { return false }
        let isChanged = try !transaction.dirtyRows(after: 0, limit: 1).isEmpty || !transaction.openForWriting().isEmpty
        return try isChanged && items.contains { item in
            // An item that a snapshot lacks was deleted at an unknown revision.
            try transaction.remote(id: item.id).map { $0.revision < item.revision || item.isDeleted && !$0.isDeleted }
                ?? true
        }
    }

    mutating func isHeld(_ id: ItemID) throws -> Bool {
        if holdsPackages == nil { holdsPackages = try !transaction.records(.awaitingPackage, limit: 1).isEmpty }
        return try holdsPackages == true && transaction.isRecord(id, .awaitingPackage)
    }

    /// The packages of the records: their current and their future ones.
    private func owners(of items: [RemoteItem], _ index: ItemIndex) throws -> [ItemID: [ItemKey]] {
        var finder = PackageFinder(transaction, index)
        let new = Dictionary(items.map { ($0.id, $0) }) { first, _ in first }
        var owners = [ItemID: [ItemKey]]()
        for item in items {
            if let row = try transaction.row(id: item.id), row.entry != nil {
                if let owner = try finder.package(of: row) { owners[item.id] = [owner] }
                // An item that moves into a package from outside waits for the rest of its new state.
                if item.isDeleted { continue }
            }
            // The ancestor folders may be in the same page.
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
        guard try admit(item) else { return }
        let old = try transaction.remote(id: item.id)
        if let old, old.revision >= item.revision, old.isDeleted == item.isDeleted {
            return try transaction.noteInSnapshot(item.id)
        }
        holdsPackages = true
        try transaction.setRemote(item, state: .awaitingPackage)
        // Versions are not part of the shown state, so they are announced at once.
        try news.announceVersions(of: item, old: old)
    }

    /// Shows the held records of a package.
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
