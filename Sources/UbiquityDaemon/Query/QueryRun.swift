import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// One running query. Its calls read the index and block; they are made one after the other.
final class QueryRun: Sendable {
    /// Items in moved folders that are examined for one update; beyond that, all results are gathered anew.
    private static let maximumMoved = 10_000

    /// The changes to report: `added` and `changed` with their present values, and the removed results.
    struct Changes: Sendable {
        var added: [MetadataRecord] = []
        var changed: [MetadataRecord] = []
        var removed: [String] = []

        var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
    }

    private struct State {
        var results = LiveResults<ItemID>()
        var walk: QueryWalk?
        /// The folders among the results, each with the hash of its last reported state.
        var folders: [ItemID: Int] = [:]

        mutating func noteFolder(_ id: ItemID, _ record: MetadataRecord?) {
            let isFolder = record?.item.kind == ItemLook.word(.directory)
            if isFolder || folders[id] != nil { folders[id] = isFolder ? record?.item.hashValue : nil }
        }
    }

    private let query: ItemQuery
    private let look: ItemLook
    private let state = Lock(State())

    init(_ query: ItemQuery, _ look: ItemLook) {
        self.query = query
        self.look = look
    }

    var count: Int { state.withLock { $0.results.count } }

    // MARK: Gathering

    /// Starts gathering from the first item, also a second time.
    func beginGathering() throws {
        let walk = try QueryWalk(query, look)
        state.withLock { state in
            state.walk = walk
            state.results.beginGathering()
        }
    }

    /// The changes from the next page of items; nil when all have been examined.
    func gather() throws -> Changes? {
        guard var walk = state.withLock({ $0.walk }) else { return nil }
        let page = try walk.next()
        guard let page else {
            let missing = state.withLock { state in
                state.walk = nil
                return state.results.endGathering()
            }
            let changes = try lookAgain(at: missing)
            return changes.isEmpty ? nil : changes
        }
        state.withLock { $0.walk = walk }
        return take(page)
    }

    private func lookAgain(at ids: Set<ItemID>) throws -> Changes {
        try look.index.read { reader in
            take(try ids.map { id in (id, try reader.row(id: id).flatMap { try record(of: $0, reader) }) })
        }
    }

    // MARK: Changes

    /// The reportable part of the changes; nil if there are so many that gathering anew is better.
    func update(_ changes: QueryChanges) throws -> Changes? {
        if changes.hasLost { return nil }
        var found = [ItemID: MetadataRecord?]()
        for folder in changes.movedFolders {
            guard try lookThrough(folder, &found) else { return nil }
        }
        try look.index.read { reader in
            for (key, id) in changes.items {
                found.updateValue(try reader.row(key: key).flatMap { try record(of: $0, reader) }, forKey: id)
            }
            for key in try others(than: changes, reader) {
                guard let row = try reader.row(key: key), found[row.id] == nil else { continue }
                found.updateValue(try record(of: row, reader), forKey: row.id)
            }
            try lookAbove(changes.folders, &found, reader)
        }
        return take(found.map { ($0.key, $0.value) })
    }

    /// - Returns: false if the folder has too many items.
    private func lookThrough(_ folder: ItemKey, _ found: inout [ItemID: MetadataRecord?]) throws -> Bool {
        let (path, isPackage, gone) = try look.index.read { reader in
            let path = try reader.path(of: folder)
            var finder = PackageFinder(reader, look.index)
            let package = try path == nil ? nil : reader.row(key: folder).flatMap { try finder.package(of: $0) }
            // The contents of a folder without a place have none either, and members of a package are no results. The
            // first member is the folder itself, which is examined separately.
            let gone = path == nil || package != nil
                ? try reader.members(of: folder, limit: Self.maximumMoved + 2).dropFirst().map(\.id) : []
            return (path, package != nil, gone)
        }
        for id in gone { found.updateValue(nil, forKey: id) }
        guard let path, !isPackage else { return found.count <= Self.maximumMoved }
        var walk = QueryWalk(query, look, folder: folder, path: path)
        while let page = try walk.next() {
            for item in page { found.updateValue(item.record, forKey: item.id) }
            if found.count > Self.maximumMoved { return false }
        }
        return true
    }

    /// Examines the folders above changed items, whose state depends on them, and adds those whose state differs.
    private func lookAbove(
        _ folders: Set<ItemKey>, _ found: inout [ItemID: MetadataRecord?], _ reader: IndexReader
    ) throws {
        var seen = Set<ItemKey>()
        for folder in folders {
            var next: ItemKey? = folder
            while let key = next, key != .root, seen.insert(key).inserted, let row = try reader.row(key: key) {
                next = row.entry?.parent
                guard found[row.id] == nil else { continue }
                let record = try record(of: row, reader)
                let told = state.withLock { $0.folders[row.id] }
                if record?.item.hashValue != told { found.updateValue(record, forKey: row.id) }
            }
        }
    }

    /// Items with other values though they did not change: packages with changed members, and the other names of a
    /// file.
    private func others(than changes: QueryChanges, _ reader: IndexReader) throws -> Set<ItemKey> {
        var keys = Set<ItemKey>()
        var finder = PackageFinder(reader, look.index)
        for folder in changes.folders {
            if let row = try reader.row(key: folder), let package = try finder.package(of: row) { keys.insert(package) }
        }
        for key in changes.items.keys {
            guard let row = try reader.row(key: key), row.isLinked else { continue }
            for link in try reader.links(to: row.id) { keys.insert(link.key) }
        }
        return keys
    }

    /// Nil if the item has no place, is in a package, or is no result of the query.
    private func record(of row: ItemRow, _ reader: IndexReader) throws -> MetadataRecord? {
        guard !row.isDeleted, let parent = row.entry?.parent, let path = try reader.path(of: row.key) else {
            return nil
        }
        var finder = PackageFinder(reader, look.index)
        if parent != .root, let folder = try reader.row(key: parent), try finder.package(of: folder) != nil {
            return nil
        }
        return try query.record(of: row, at: path, look, reader)
    }

    private func take(_ page: [QueryWalk.Found]) -> Changes {
        state.withLock { state in
            var changes = Changes()
            for (id, record) in page {
                state.noteFolder(id, record)
                switch (state.results.take(id, isResult: record != nil), record) {
                case (.added, let record?): changes.added.append(record)
                case (.changed, let record?): changes.changed.append(record)
                case (.removed, _): changes.removed.append(id.description)
                default: continue
                }
            }
            return changes
        }
    }
}
