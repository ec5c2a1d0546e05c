internal import UbiquityCore
internal import UbiquityIndex

extension IndexTransaction {
    /// Forgets the remote tree because the cloud is another one. Local items are uploaded as new. A placeholder
    /// remains, and reports its content as unavailable until the old cloud's data is restored.
    func startOver() throws {
        for row in try allRows() where row.key != .root && !row.isExcluded {
            if row.isDeleted {
                try delete(row)
            } else if row.kind != .file || row.contentState == .complete {
                try sendAsNew(row)
            }
        }
        try forgetAllRemotes()
    }
}
