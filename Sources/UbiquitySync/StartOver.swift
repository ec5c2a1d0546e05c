internal import UbiquityCore
internal import UbiquityIndex

extension IndexTransaction {
    /// Forgets the remote tree: the cloud is another one. What is here goes up as new; a placeholder stays one, and
    /// says that its content is not to be had, until the old cloud's data comes back.
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
