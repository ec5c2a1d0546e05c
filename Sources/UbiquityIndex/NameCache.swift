internal import UbiquityCore

/// Which item has a name in a folder, of names lately asked for or given, and which names nobody has.
///
/// Of a folder that was made since the index was opened all names are known, so that a new one in it, which is looked
/// up before it is made, asks no database: a clone, an unpacked archive. Part of `RowCache`, by whose rules it
/// remembers and forgets.
struct NameCache {
    /// Names kept; at about 150 bytes each, 3 MB. Folders of which all are known, too.
    static let capacity = 20_000

    enum Known {
        case item(ItemKey)
        case nobody
        case unknown
    }

    /// By a name: the key of who has it, `nobody`, or `unknown`, while a commit changes it and if that has failed.
    private var items: [ItemRow.Entry: Int64] = [:]
    // Keys are greater than 0.
    private static let nobody: Int64 = 0, unknown: Int64 = -1
    /// Folders of which every name that somebody has is in `items`.
    private var whole: Set<ItemKey> = []
    /// Those of them in which a commit that is under way changes names.
    private var suspended: Set<ItemKey> = []

    func item(at entry: ItemRow.Entry) -> Known {
        guard let known = items[entry] else { return whole.contains(entry.parent) ? .nobody : .unknown }
        return switch known {
        case Self.nobody: .nobody
        case Self.unknown: .unknown
        default: .item(ItemKey(known))
        }
    }

    /// - Parameter item: nil if nobody has the name.
    mutating func remember(_ entry: ItemRow.Entry, _ item: ItemKey?) {
        // What is lost is asked for once more.
        if items.count >= Self.capacity { removeAll() }
        items[entry] = Self.mark(item)
    }

    /// A number that no key can be is damage, and not remembered.
    private static func mark(_ item: ItemKey?) -> Int64 {
        guard let item else { return nobody }
        return item.rawValue > nobody ? item.rawValue : unknown
    }

    mutating func removeAll() {
        items.removeAll(keepingCapacity: true)
        whole = []
        suspended = []
    }

    /// A commit that changes these names is about to be made.
    mutating func beginCommit(of changes: NameChanges) {
        let comesBack = changes.items.count <= RowCache.maximumWritten
        for entry in changes.items.keys {
            // To take it out and put it in again costs more.
            if comesBack { items[entry] = Self.unknown } else { items.removeValue(forKey: entry) }
            if whole.remove(entry.parent) != nil { suspended.insert(entry.parent) }
        }
    }

    /// The commit is made, or failed: then what it would have changed is not known.
    mutating func endCommit(_ changes: NameChanges?) {
        defer { suspended = [] }
        // Also of those that fail, which leave their names as unknown.
        let more = changes?.items.count ?? 0, folders = suspended.count + (changes?.newFolders.count ?? 0)
        if items.count + more > Self.capacity || whole.count + folders > Self.capacity { removeAll() }
        guard let changes else { return }
        whole.formUnion(suspended)
        // After the others, of which one may be in a folder that is new.
        whole.formUnion(changes.newFolders)
        for (entry, item) in changes.items { items[entry] = Self.mark(item) }
    }

    /// All that is known: names, of nobody too, and folders of which every name is.
    var contents: (items: [ItemRow.Entry: ItemKey?], whole: Set<ItemKey>) {
        let known = items.filter { $0.value != Self.unknown }
        return (known.mapValues { $0 == Self.nobody ? nil : ItemKey($0) }, whole)
    }
}

/// What a transaction has done to names.
struct NameChanges {
    /// Who has them now; nil for nobody.
    private(set) var items: [ItemRow.Entry: ItemKey?] = [:]
    /// Folders that it made.
    private(set) var newFolders: Set<ItemKey> = []

    mutating func give(_ entry: ItemRow.Entry, to item: ItemKey?) { items[entry] = .some(item) }
    mutating func noteNewFolder(_ key: ItemKey) { newFolders.insert(key) }
}
