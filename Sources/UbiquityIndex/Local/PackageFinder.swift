package import UbiquityCore

/// Finds the packages that hold items: folders that are one document. A package is the outermost such folder above an
/// item, or the item itself.
///
/// It caches folders, so use it within one transaction only.
package struct PackageFinder {
    private let reader: IndexReader
    private let rules: PackageRules
    /// For folders: the package they are, or lie in.
    private var known: [ItemKey: ItemKey?] = [:]
    /// The same for folders of the cloud.
    private var knownRemote: [ItemID: ItemKey?] = [:]

    package init(_ queries: some IndexQueries, _ index: ItemIndex) {
        reader = queries.reader
        rules = index.packages
    }

    /// Returns the package of an item; nil if there is none. A deleted item is located by the cloud's record.
    package mutating func package(of row: ItemRow) throws -> ItemKey? {
        guard row.kind == .directory || row.entry == nil else {
            return try row.entry.flatMap { try self.package(ofFolder: $0.parent) }
        }
        if row.entry != nil || row.key == .root { return try package(ofFolder: row.key) }
        if row.kind == .directory { return try package(ofRemote: row.id) }
        guard let parent = try reader.remoteParent(of: row.id) else { return nil }
        return try package(ofRemote: parent)
    }

    /// Returns the package of an item in a folder of the cloud, by the folder's place here, or else at the cloud.
    package mutating func package(ofRemote folder: ItemID) throws -> ItemKey? {
        if let known = knownRemote[folder] { return known }
        let found = try lookUp(remote: folder)
        knownRemote[folder] = .some(found)
        return found
    }

    private mutating func lookUp(remote folder: ItemID) throws -> ItemKey? {
        var id = folder, found: ItemKey?
        for _ in 0..<Limits.maximumDepth {
            let row = try reader.row(id: id)
            if let row, row.key == .root || row.entry != nil { return try package(ofFolder: row.key) ?? found }
            guard let remote = try reader.remote(id: id) else { return found }
            // The folder was deleted here; it is still the package it was.
            if let row, row.isDeleted, rules.isPackage(remote.name, remote.xattrs) { found = row.key }
            id = remote.parent
        }
        return found
    }

    /// Returns the packages whose content a local change affects: the one that holds the item, and the one it was moved
    /// out of. Name, mode and attributes of the package's own folder are not its content.
    package mutating func packages(changedBy row: ItemRow) throws -> Set<ItemKey> {
        var result = Set<ItemKey>()
        if let owner = try package(of: row), row.key != owner || row.dirty.contains(.created) || row.isDeleted {
            result.insert(owner)
        }
        if row.dirty.contains(.place), let parent = try reader.remoteParent(of: row.id),
            let left = try package(ofRemote: parent)
        {
            result.insert(left)
        }
        return result
    }

    /// Returns the packages whose changes are uploaded together with a local change: the affected ones, and for a
    /// package's own folder the package itself.
    package mutating func packages(with row: ItemRow) throws -> Set<ItemKey> {
        var result = try packages(changedBy: row)
        if let owner = try package(of: row) { result.insert(owner) }
        return result
    }

    /// Walks from the folder to the top; the highest package counts.
    package mutating func package(ofFolder folder: ItemKey) throws -> ItemKey? {
        var path = [ItemRow](), key = folder, found: ItemKey?
        while key != .root {
            if let above = known[key] {
                found = above
                break
            }
            guard path.count < Limits.maximumDepth, let row = try reader.row(key: key), let entry = row.entry else {
                break
            }
            path.append(row)
            key = entry.parent
        }
        for row in path.reversed() {
            if found == nil, let name = row.entry?.name, rules.isPackage(name, row.xattrs) { found = row.key }
            known[row.key] = .some(found)
        }
        return found
    }
}
