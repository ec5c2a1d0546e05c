internal import UbiquityCore

/// Rules that every record of a correct cloud obeys. A record that breaks one is ignored, because it would create a
/// cycle in the index.
enum RecordRules {
    /// Why a record is ignored, or nil if it is valid.
    ///
    /// - Parameter known: the last record of the same item.
    static func violation(of item: RemoteItem, known: RemoteItem?) -> String? {
        if item.parent == item.id { return "it is its own parent" }
        if item.kind == .hardLink {
            guard let target = ItemID(bytes: item.linkTarget) else { return "it is a link to no item" }
            if target == item.id { return "it is a link to itself" }
        }
        if let known, known.kind != item.kind { return "it is a \(item.kind) and was a \(known.kind)" }
        return nil
    }
}
