import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Resolves paths in messages of the local socket to items. All of it reads the index and may block.
struct ItemTree: Sendable {
    let index: ItemIndex

    /// Children read at a time.
    private static let pageSize = 1000

    /// An item and its place.
    struct Place: Hashable, Sendable {
        var key: ItemKey
        var kind: ItemKind
        /// In bytes.
        var size: Int64
        /// From the root, without a slash in front.
        var path: String
    }

    /// The item at a path. Throws `.notFound` and errors of invalid names, with the path.
    func row(at path: String) throws -> ItemRow {
        do {
            let names = try Self.names(of: path)
            guard !names.contains(.versionsFolder) else {
                throw UbiquityError(
                    .invalid, "the path is in a '.versions' folder",
                    remedy: "name the file itself; 'ubiquity versions' lists its versions")
            }
            guard let row = try index.read({ try $0.row(path: names) }), !row.isDeleted else {
                throw UbiquityError(.notFound, "no such file or folder")
            }
            return row
        } catch let error as UbiquityError where error.place.isEmpty {
            throw UbiquityError(error.code, error.message, at: path, remedy: error.remedy)
        }
    }

    /// The item at a path; if the path is a further name of the item, also that name's key.
    func keys(at path: String) throws -> [ItemKey] {
        let row = try row(at: path)
        let names = try Self.names(of: path)
        guard row.kind == .file, let last = names.last else { return [row.key] }
        let name = try index.read { reader in
            try reader.row(path: names.dropLast()).flatMap { try reader.child(of: $0.key, named: last) }
        }
        guard let name, name.key != row.key else { return [row.key] }
        return [row.key, name.key]
    }

    /// The item and, for a folder, all its contents, folders before their contents.
    func subtree(at path: String) throws -> [Place] {
        let top = try row(at: path)
        var found = [Place(key: top.key, kind: top.kind, size: top.size, path: path)]
        var next = 0
        while next < found.count {
            let place = found[next]
            next += 1
            if place.kind == .directory { try addChildren(of: place, to: &found) }
        }
        return found
    }

    private func addChildren(of folder: Place, to found: inout [Place]) throws {
        var last: ItemName?
        while true {
            let rows = try index.read { try $0.children(of: folder.key, after: last, limit: Self.pageSize) }
            for child in rows {
                guard let name = child.entry?.name else { continue }
                last = name
                guard let row = try index.read({ try $0.named(child) }) else { continue }
                let path = folder.path.isEmpty ? name.description : "\(folder.path)/\(name)"
                found.append(Place(key: row.key, kind: row.kind, size: row.size, path: path))
            }
            if rows.count < Self.pageSize { return }
        }
    }

    /// Where an item is now; nil if it has no place (deleted, or in a deleted folder).
    func path(of key: ItemKey) throws -> String? {
        try index.read { try $0.path(of: key) }.map { $0.map(\.description).joined(separator: "/") }
    }

    /// The item's path in the cloud; nil if the cloud is not known to have it.
    func pathAtCloud(of id: ItemID) throws -> String? {
        try index.read { reader in
            var names = [String](), next = id
            for _ in 0..<Limits.maximumDepth {
                if next == .root { return names.reversed().joined(separator: "/") }
                guard let remote = try reader.remote(id: next) else { return nil }
                names.append(remote.name.description)
                next = remote.parent
            }
            return nil
        }
    }

    static func names(of path: String) throws(UbiquityError) -> [ItemName] {
        var names = [ItemName]()
        for part in path.utf8.split(separator: UInt8(ascii: "/")) {
            do throws(ItemName.Invalid) { names.append(try ItemName(Array(part))) } catch {
                throw UbiquityError(.invalidName, "not a path in a container: \(Self.text(of: error))", at: path)
            }
        }
        return names
    }

    private static func text(of invalid: ItemName.Invalid) -> String {
        switch invalid {
        case .empty: "a name is empty"
        case .tooLong: "a name is longer than \(Limits.maximumNameLength) bytes"
        case .notUTF8: "a name is not UTF-8"
        case .reserved: "a name is '.' or '..', or has a zero byte"
        }
    }

    /// The item at the path, or the free name there.
    func target(at path: String, resolvingLinks: Bool) throws -> ClaimTarget {
        let names = try Self.names(of: path)
        if let row = try index.read({ try $0.row(path: names) }), !row.isDeleted {
            guard resolvingLinks, row.kind == .symlink else { return row.claimTarget }
            return try target(ofLink: row, at: names)
        }
        guard let name = names.last, let folder = try index.read({ try $0.row(path: Array(names.dropLast())) }),
            !folder.isDeleted, folder.kind == .directory
        else { throw UbiquityError(.notFound, "no such file or folder", at: path) }
        return ClaimTarget(name: name, in: folder.key)
    }

    /// The target of a link within the container; any other link is a target by itself.
    private func target(ofLink row: ItemRow, at names: [ItemName]) throws -> ClaimTarget {
        let text = String(decoding: row.linkTarget, as: UTF8.self)
        guard !text.hasPrefix("/") else { return row.claimTarget }
        var path = names.dropLast().map(\.description)
        for part in text.split(separator: "/") where part != "." {
            if part != ".." { path.append(String(part)) } else if path.popLast() == nil { return row.claimTarget }
        }
        return try target(at: path.joined(separator: "/"), resolvingLinks: false)
    }
}
