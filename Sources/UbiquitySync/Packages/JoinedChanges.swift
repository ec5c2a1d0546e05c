internal import UbiquityCore
internal import UbiquityWire

extension [ItemChange] {
    /// Joins the changes of each item to one. The states of two packages may each contain a change of one item, and a
    /// commit has one change per item.
    func joinedByItem() -> [ItemChange] {
        var result = [ItemChange](), places: [ItemID: Int] = [:]
        for change in self {
            if let place = places[change.id] {
                result[place] = result[place].joined(with: change)
            } else {
                places[change.id] = result.count
                result.append(change)
            }
        }
        return result
    }
}

extension ItemChange {
    /// Joins two changes. This one's fields win, and the other fills the missing fields. An item that either one keeps
    /// is not deleted.
    fileprivate func joined(with other: ItemChange) -> ItemChange {
        var result = self
        result.baseRevision = Swift.max(baseRevision, other.baseRevision)
        switch (action, other.action) {
        case (.delete, _): result.action = other.action
        case (.put(var fields), .put(let others)):
            fields.place = fields.place ?? others.place
            fields.mode = fields.mode ?? others.mode
            fields.modifiedAt = fields.modifiedAt ?? others.modifiedAt
            fields.createdAt = fields.createdAt ?? others.createdAt
            fields.content = fields.content ?? others.content
            fields.linkTarget = fields.linkTarget ?? others.linkTarget
            if fields.xattrsSet.isEmpty, fields.xattrsRemoved.isEmpty {
                fields.xattrsSet = others.xattrsSet
                fields.xattrsRemoved = others.xattrsRemoved
            }
            result.action = .put(fields)
        case (.put(let fields), .undelete) where fields == ChangedFields(): result.action = other.action
        case (.put(var fields), .undelete(let place)):
            fields.place = fields.place ?? place
            result.action = .put(fields)
        default: break
        }
        return result
    }
}
