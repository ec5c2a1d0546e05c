import GRDB
internal import UbiquityCore
internal import UbiquityWire

/// The queries of the web pages over one container's rows.
struct BrowserQueries {
    let tables: ContainerTables

    // MARK: Folders

    /// A part of a folder, in an order that people expect: folders come first.
    func folder(_ folder: ItemID, _ order: FolderOrder, onlyFolders: Bool, from offset: Int, limit: Int) throws
        -> FolderListing
    {
        let count = try count(of: folder, onlyFolders: onlyFolders)
        // A huge folder has the order of its index, because sorting it would take too long.
        let sorting = count > CloudLimits.sortedItems ? "items.name" : order.sorting
        // Only the ids are sorted: whole rows would fill the memory of a large folder.
        let ids = try tables.fetchAll(
            """
            SELECT items.id FROM items INDEXED BY itemsPlace
            WHERE items.container = ? AND items.parent = ? AND items.deleted IS NULL
            \(onlyFolders ? "AND items.kind = 2" : "") ORDER BY \(sorting) LIMIT ? OFFSET ?
            """, [Bytes(folder.bytes), limit, max(0, offset)])
        let items = try ids.compactMap { row in
            try row.bytes(0).flatMap { ItemID(bytes: $0) }.flatMap { try tables.remoteItem($0) }
        }
        return FolderListing(items: items, count: count, isSorted: count <= CloudLimits.sortedItems)
    }

    private func count(of folder: ItemID, onlyFolders: Bool) throws -> Int {
        let row = try tables.fetchOne(
            """
            SELECT count(*) FROM (SELECT 1 FROM items INDEXED BY itemsPlace
            WHERE container = ? AND parent = ? AND deleted IS NULL \(onlyFolders ? "AND kind = 2" : "")
            LIMIT \(CloudLimits.countedRows))
            """, [Bytes(folder.bytes)])
        return Int(row?.number(0) ?? 0)
    }

    func child(of folder: ItemID, named name: ItemName) throws -> RemoteItem? {
        try tables.liveChild(of: folder, named: name).flatMap { try tables.remoteItem($0) }
    }

    /// The item and all live items below it, parents first.
    /// - Throws: `.tooLarge` if there are more than `limit`.
    func subtree(of item: ItemID, limit: Int) throws -> [RemoteItem] {
        guard let top = try place(of: item)?.item else { return [] }
        var found = [top], next = 0
        while next < found.count {
            defer { next += 1 }
            guard found[next].kind == .directory else { continue }
            found += try tables.remoteItems(
                "itemsPlace", "items.parent = ? AND items.deleted IS NULL ORDER BY items.name LIMIT ?",
                [Bytes(found[next].id.bytes), limit + 1])
            guard found.count <= limit else {
                throw UbiquityError(
                    .tooLarge, "\"\(top.name)\" has more than \(limit) items",
                    remedy: "do this in parts, or on a device")
            }
        }
        return found
    }

    // MARK: Search

    /// Live items whose names have the text, whatever the case of its letters. In no particular order.
    func search(_ text: String, limit: Int) throws -> SearchResult {
        let wanted = SearchText(text)
        let rows = try Row.fetchCursor(
            tables.db.cachedStatement(
                sql: """
                    SELECT id, name FROM items INDEXED BY itemsPlace WHERE container = ? AND deleted IS NULL LIMIT ?
                    """), arguments: [tables.container, CloudLimits.searchedItems + 1])
        var found = [ItemID](), seen = 0
        while found.count <= limit, let row = try rows.next() {
            seen += 1
            guard let name = row.bytes(1), wanted.isIn(name), let id = row.bytes(0).flatMap({ ItemID(bytes: $0) })
            else { continue }
            found.append(id)
        }
        let places = try found.prefix(limit).compactMap { try place(of: $0) }
        return SearchResult(places: places, isComplete: found.count <= limit && seen <= CloudLimits.searchedItems)
    }

    // MARK: Places

    /// Nil if there is no such item.
    func place(of item: ItemID) throws -> ItemPlace? {
        if item == .root, try tables.remoteItem(item) == nil {
            return ItemPlace(item: ItemRecord.root.remoteItem(nil, conflicts: []), folders: [])
        }
        return try tables.remoteItem(item).map { ItemPlace(item: $0, folders: try folders(above: $0)) }
    }

    /// From the top down, without the top folder itself.
    private func folders(above item: RemoteItem) throws -> [ItemPlace.Folder] {
        var folders: [ItemPlace.Folder] = [], next = item.parent
        while next != .root, item.id != .root, folders.count < Limits.maximumDepth, let folder = try tables.item(next) {
            folders.append(ItemPlace.Folder(id: folder.id, name: folder.name))
            next = folder.parent
        }
        return folders.reversed()
    }
}

extension FolderOrder {
    fileprivate var sorting: String {
        let name = "CAST(items.name AS TEXT) COLLATE NOCASE, items.name"
        return switch self {
        case .name: "items.kind <> 2, \(name)"
        case .newest: "items.kind <> 2, items.modified DESC, \(name)"
        case .largest: "items.kind <> 2, items.size DESC, \(name)"
        }
    }
}

/// The searched text, prepared for many names.
private struct SearchText {
    /// In lower case.
    private let bytes: [UInt8]
    private let isASCII: Bool

    init(_ text: String) {
        bytes = Array(text.lowercased().utf8)
        isASCII = bytes.allSatisfy { $0 < 0x80 }
    }

    func isIn(_ name: [UInt8]) -> Bool {
        if isASCII { return Self.contains(name.map { (65...90).contains($0) ? $0 + 32 : $0 }, bytes) }
        return Self.contains(Array(String(decoding: name, as: UTF8.self).lowercased().utf8), bytes)
    }

    private static func contains(_ name: [UInt8], _ part: [UInt8]) -> Bool {
        guard let first = part.first else { return true }
        guard part.count <= name.count else { return false }
        return (0...(name.count - part.count)).contains { start in
            name[start] == first && name[start..<(start + part.count)].elementsEqual(part)
        }
    }
}
