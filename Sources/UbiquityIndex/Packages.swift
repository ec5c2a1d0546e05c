package import UbiquityCore

// Folders that are one document. A package is the outermost such folder above an item, or the item itself.

extension ItemIndex {
    /// Whether the item is such a folder.
    package func isPackage(_ row: ItemRow) -> Bool {
        guard row.kind == .directory, let name = row.entry?.name else { return false }
        return packages.isPackage(name, row.xattrs)
    }
}

/// Finds the packages that items lie in. Folders once looked at are remembered, so it is for one transaction.
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

    /// The package of an item, nil if it is in none. A deleted one is looked for where the cloud has it.
    package mutating func package(of row: ItemRow) throws -> ItemKey? {
        guard row.kind == .directory || row.entry == nil else {
            return try row.entry.flatMap { try self.package(ofFolder: $0.parent) }
        }
        if row.entry != nil || row.key == .root { return try package(ofFolder: row.key) }
        guard let parent = try reader.remoteParent(of: row.id) else { return nil }
        return try package(ofRemote: parent)
    }

    /// The package of something that the cloud has in that folder, by where the folder is here, or else there.
    package mutating func package(ofRemote folder: ItemID) throws -> ItemKey? {
        if let known = knownRemote[folder] { return known }
        let found = try lookUp(remote: folder)
        knownRemote[folder] = .some(found)
        return found
    }

    private mutating func lookUp(remote folder: ItemID) throws -> ItemKey? {
        var id = folder
        for _ in 0..<Limits.maximumDepth {
            if let row = try reader.row(id: id), row.key == .root || row.entry != nil {
                return try package(ofFolder: row.key)
            }
            guard let parent = try reader.remoteParent(of: id) else { return nil }
            id = parent
        }
        return nil
    }

    /// From the folder up to the top; the highest that is a package is the one.
    private mutating func package(ofFolder folder: ItemKey) throws -> ItemKey? {
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

extension IndexReader {
    /// The package's folder and everything in it, at most `limit` items.
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

    /// Files that programs have open for writing.
    package func openForWriting() throws -> [ItemRow] { try rows(RowCoding.select("items.flags & 1"), []) }
}
