package import UbiquityCore
package import UbiquityIndex

extension IndexQueries {
    /// The held records, by package.
    package func heldPackages(_ index: ItemIndex) throws -> [ItemKey: [ItemID]] {
        let ids = try records(.awaitingPackage, limit: .max)
        guard !ids.isEmpty else { return [:] }
        var finder = PackageFinder(self, index), changed: Set<ItemKey>?
        var result = [ItemKey: [ItemID]]()
        for id in ids {
            let (here, there) = try packages(ofHeld: id, &finder)
            var owner = here ?? there
            // An item that moves from one package to another waits for both.
            if let here, let there, here != there {
                let known = try changed ?? changedPackages(index)
                changed = known
                if !known.contains(here) { owner = there }
            }
            // A record that is in no package any more waits for nothing.
            result[owner ?? .root, default: []].append(id)
        }
        return result
    }

    /// The held records of a package that also wait for another one: they move into it, and it has local changes that
    /// are not uploaded.
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
    /// Whether the row has a local content that the record's content will replace.
    func awaitsContent(of item: RemoteItem) -> Bool {
        guard !item.isDeleted, !isDeleted, kind == .file, contentState == .complete, !dirty.contains(.content),
            let content = item.content
        else { return false }
        return content.version != version
    }
}
