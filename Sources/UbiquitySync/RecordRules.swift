internal import UbiquityCore

/// Rules that every record of a sound cloud keeps. A record that breaks one is ignored: taken in, it would lead the
/// index in a circle.
enum RecordRules {
    /// Why a record is ignored; nil if it is sound.
    ///
    /// - Parameter known: The last record of the same item.
    static func violation(of item: RemoteItem, known: RemoteItem?) -> String? {
        if item.parent == item.id { return "it lies in itself" }
        if item.kind == .hardLink {
            guard let target = ItemID(bytes: item.linkTarget) else { return "it is a link to no item" }
            if target == item.id { return "it is a link to itself" }
        }
        if let known, known.kind != item.kind { return "it is a \(item.kind) and was a \(known.kind)" }
        return nil
    }
}
