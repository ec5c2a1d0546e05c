import UbiquityControl
import UbiquityCore
import UbiquityIndex

/// Walks a tree from its top, a page at a time: folders before their contents, names in byte order. It holds some rows
/// for each folder on the way down, however large the tree is.
struct QueryWalk {
    /// Items examined in one go.
    static let pageSize = 500
    /// Children of one folder read at a time.
    private static let childrenPerRead = 200

    private struct Level {
        var folder: ItemKey
        var path: [ItemName]
        var rows: ArraySlice<ItemRow> = []
        var last: ItemName?
        var isRead = false
    }

    private let query: ItemQuery
    private let look: ItemLook
    private var levels: [Level] = []
    /// Examined first: the top itself, if it is not a folder.
    private var first: (row: ItemRow, path: [ItemName])?

    init(_ query: ItemQuery, _ look: ItemLook) throws {
        self.query = query
        self.look = look
        let top = query.top
        guard let row = try look.index.read({ try $0.row(path: top) }), !row.isDeleted else { return }
        if row.kind != .directory || look.index.isPackage(row) {
            first = (row, top)
        } else {
            levels = [Level(folder: row.key, path: top)]
        }
    }

    /// Walks one folder, for the items moved with it.
    init(_ query: ItemQuery, _ look: ItemLook, folder: ItemKey, path: [ItemName]) {
        self.query = query
        self.look = look
        levels = [Level(folder: folder, path: path)]
    }

    /// An examined item, and its record if it is a result.
    typealias Found = (id: ItemID, record: MetadataRecord?)

    /// The items of the next page; nil at the end.
    mutating func next() throws -> [Found]? {
        guard first != nil || !levels.isEmpty else { return nil }
        var walk = self
        let found = try look.index.read { reader in try walk.page(reader) }
        self = walk
        return found
    }

    private mutating func page(_ reader: IndexReader) throws -> [Found] {
        var found = [Found]()
        if let first {
            found.append((first.row.id, try query.record(of: first.row, at: first.path, look, reader)))
            self.first = nil
        }
        while found.count < Self.pageSize, !levels.isEmpty {
            let top = levels.count - 1
            guard let row = levels[top].rows.popFirst() else {
                guard try readOn(top, reader) else {
                    levels.removeLast()
                    continue
                }
                continue
            }
            guard let name = row.entry?.name else { continue }
            let path = levels[top].path + [name]
            found.append((row.id, try query.record(of: row, at: path, look, reader)))
            // Members of a package are no results of their own.
            if row.kind == .directory, path.count < Limits.maximumDepth, !look.index.isPackage(row) {
                levels.append(Level(folder: row.key, path: path))
            }
        }
        return found
    }

    /// - Returns: false if the folder has no more children.
    private mutating func readOn(_ level: Int, _ reader: IndexReader) throws -> Bool {
        guard !levels[level].isRead else { return false }
        let rows = try reader.children(
            of: levels[level].folder, after: levels[level].last, limit: Self.childrenPerRead)
        levels[level].isRead = rows.count < Self.childrenPerRead
        levels[level].last = rows.last?.entry?.name ?? levels[level].last
        levels[level].rows = rows[...]
        return !rows.isEmpty
    }
}
