internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync

// Uploads of items that the cloud has lost.

extension IndexTransaction {
    /// - Returns: whether the item is uploaded. Otherwise it is excluded again, as before it lost that mark.
    func sendOrKeep(_ row: ItemRow) throws -> Bool {
        guard try !wasKeptLocal(row) else {
            try keepLocal(row)
            return false
        }
        try sendWhatIsHere(row)
        return true
    }

    /// Uploads the whole local state of an item unknown to the cloud as new. A placeholder has none and is removed.
    func sendWhatIsHere(_ row: ItemRow) throws {
        guard !row.isExcluded, row.key != .root else { return }
        if row.kind == .file, row.contentState != .complete {
            try delete(row)
            note(.removed, before: row, after: nil)
        } else {
            try sendAsNew(row)
        }
    }
}
