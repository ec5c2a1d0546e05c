package import UbiquityCore

// Folders that are one document. A package is the outermost such folder above an item, or the item itself.

extension ItemIndex {
    /// Returns whether the item is such a folder.
    package func isPackage(_ row: ItemRow) -> Bool {
        guard row.kind == .directory, let name = row.entry?.name else { return false }
        return packages.isPackage(name, row.xattrs)
    }
}

/// Finds the packages that hold items. It caches folders, so use it within one transaction only.
package struct PackageFinder {
    private let reader: IndexReader
    private let rules: PackageRules
    /// For folders: the package they are, or lie in.
    private var known: [ItemKey: ItemKey?] = [:]
    /// The same for folders of the cloud.
    private var knownRemote: [ItemID: ItemKey?] = [:]

    package init(_ reader: IndexReader, _ index: ItemIndex) {
        self.reader = reader
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

extension IndexTransaction {
    package var packageFinder: PackageFinder { PackageFinder(self, index) }
}

extension IndexReader {
    /// Returns the package's folder and everything in it, at most `limit` items.
    package func members(of package: ItemKey, limit: Int) throws -> [ItemRow] {
        guard let top = try row(key: package) else { return [] }
        var result = [top], next = 0
        while next < result.count, result.count < limit {
            let folder = result[next]
            next += 1
            guard folder.kind == .directory else { continue }
            result += try children(of: folder.key, after: nil, limit: limit - result.count)
        }
        return result
    }

    /// Returns packages with local changes that are not uploaded, or being written. Remote changes are not mixed with
    /// them.
    package func changedPackages(_ index: ItemIndex) throws -> Set<ItemKey> {
        var finder = PackageFinder(self, index), result = Set<ItemKey>(), order: Int64 = 0
        while true {
            let rows = try dirtyRows(after: order, limit: Self.rowsPerRead)
            for row in rows { result.formUnion(try finder.packages(changedBy: row)) }
            guard let last = rows.last, rows.count == Self.rowsPerRead else { break }
            order = last.dirtyOrder
        }
        for row in try openForWriting() where !row.isExcluded {
            if let owner = try finder.package(of: row) { result.insert(owner) }
        }
        return result
    }

    private static let rowsPerRead = 1000

    /// Returns files that programs have open for writing.
    package func openForWriting() throws -> [ItemRow] { try rows(RowCoding.select("items.flags & 1"), []) }
}
