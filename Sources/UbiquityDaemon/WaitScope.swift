import UbiquityCore
import UbiquityIndex

/// Which changes are of what is waited for, as the index has it at one moment.
///
/// What was deleted in a folder, or moved out of it, is a change of that folder too, while the cloud has not heard of
/// it: there it still lies in it. Of thousands of files deleted in one folder the way up is gone once.
struct WaitScope {
    private let tops: [ItemKey]
    private let reader: IndexReader
    /// Whether the cloud has a folder in what is waited for.
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
