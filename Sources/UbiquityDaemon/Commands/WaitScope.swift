import UbiquityCore
import UbiquityIndex

/// Decides which changes belong to the awaited items, by the index at one moment.
///
/// A deletion from a folder, or a move out of it, is a change of that folder too until the cloud has it, because in the
/// cloud the item is still there. For thousands of files deleted from one folder, the walk up the tree is made once.
struct WaitScope {
    private let tops: [ItemKey]
    private let reader: IndexReader
    /// Whether the cloud has a folder among the awaited items.
    private var known: [ItemID: Bool] = [:]

    init(tops: [ItemKey], reader: IndexReader) {
        self.tops = tops
        self.reader = reader
    }

    mutating func contains(_ row: ItemRow) throws -> Bool {
        if tops.contains(row.key) { return true }
        if row.entry != nil, try isWithin(row.key) { return true }
        guard !row.dirty.isDisjoint(with: [.deleted, .place]), let folder = try reader.remoteParent(of: row.id)
        else { return false }
        return try hasAtCloud(folder)
    }

    func isWithin(_ key: ItemKey) throws -> Bool {
        for top in tops where try reader.isWithin(key, top) { return true }
        return false
    }

    private mutating func hasAtCloud(_ folder: ItemID) throws -> Bool {
        var way = [ItemID](), next: ItemID? = folder
        var isFound = false
        while let id = next, way.count <= Limits.maximumDepth {
            if let answer = known[id] {
                isFound = answer
                break
            }
            way.append(id)
            if let row = try reader.row(id: id), try isWithin(row.key) {
                isFound = true
                break
            }
            next = try reader.remoteParent(of: id)
        }
        for id in way { known[id] = isFound }
        return isFound
    }
}
