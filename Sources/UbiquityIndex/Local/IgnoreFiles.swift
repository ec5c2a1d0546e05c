internal import UbiquityCore
internal import UbiquitySystem

/// The ignore files of a container's folders, as last read.
final class IgnoreFiles: Sendable {
    private let known = Lock<[ItemKey: IgnoreRules]>([:])
    /// Rules that hold everywhere, weaker than those of any file.
    let standard: IgnoreRules

    init(standard: IgnoreRules) { self.standard = standard }

    subscript(folder: ItemKey) -> IgnoreRules? {
        get { known.withLock { $0[folder] } }
        set { known.withLock { $0[folder] = newValue } }
    }

    var isEmpty: Bool { known.withLock { $0.isEmpty } }
}

extension ItemName {
    /// Whether the name ends in ".nosync". No ignore file can override this, and a synced item leaves sync when it gets
    /// such a name.
    var isAlwaysLocal: Bool { bytes.suffix(IgnoreRules.localSuffix.count) == IgnoreRules.localSuffix[...] }
}
