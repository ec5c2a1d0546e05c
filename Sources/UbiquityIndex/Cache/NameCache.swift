internal import UbiquityCore

/// Caches recently used names: which item has a name in a folder, and which names are free.
///
/// For a folder created since the index was opened, all names are known. So creating an item there, which starts with a
/// lookup, needs no database query: a clone or an unpacked archive profits. Part of `RowCache`, whose rules decide what
/// is remembered and forgotten.
struct NameCache {
    /// Maximum names; at about 150 bytes each, 3 MB. Also the maximum of completely known folders.
    static let capacity = 20_000

    enum Known {
        case item(ItemKey)
        case nobody
        case unknown
    }

    /// By name: the item's key, `nobody`, or `unknown` while a commit changes the name or after that commit has failed.
    private var items: [ItemRow.Entry: Int64] = [:]
    // Keys are greater than 0.
    private static let nobody: Int64 = 0, unknown: Int64 = -1
    /// Folders whose names are all in `items`.
    private var whole: Set<ItemKey> = []
    /// Those folders in which a running commit changes names.
    private var suspended: Set<ItemKey> = []

    func item(at entry: ItemRow.Entry) -> Known {
        guard let known = items[entry] else { return whole.contains(entry.parent) ? .nobody : .unknown }
        return switch known {
        case Self.nobody: .nobody
        case Self.unknown: .unknown
        default: .item(ItemKey(known))
        }
    }

    /// - Parameter item: Nil if the name is free.
    mutating func remember(_ entry: ItemRow.Entry, _ item: ItemKey?) {
        // Dropped names are queried again.
        if items.count >= Self.capacity { removeAll() }
        items[entry] = Self.mark(item)
    }

    /// A number that cannot be a key shows damage and is not remembered.
    private static func mark(_ item: ItemKey?) -> Int64 {
        guard let item else { return nobody }
        return item.rawValue > nobody ? item.rawValue : unknown
    }

    mutating func removeAll() {
        items.removeAll(keepingCapacity: true)
        whole = []
        suspended = []
    }

    /// Prepares for a commit that changes these names.
    mutating func beginCommit(of changes: NameChanges) {
        let comesBack = changes.items.count <= RowCache.maximumWritten
        for entry in changes.items.keys {
            // Removing and inserting the entry would cost more.
            if comesBack { items[entry] = Self.unknown } else { items.removeValue(forKey: entry) }
            if whole.remove(entry.parent) != nil { suspended.insert(entry.parent) }
        }
    }

    /// Ends a commit. After a failure (nil) the changed names stay unknown.
    mutating func endCommit(_ changes: NameChanges?) {
        defer { suspended = [] }
        // Failed commits count too, because they leave unknown names.
        let more = changes?.items.count ?? 0, folders = suspended.count + (changes?.newFolders.count ?? 0)
        if items.count + more > Self.capacity || whole.count + folders > Self.capacity { removeAll() }
        guard let changes else { return }
        whole.formUnion(suspended)
        // Runs after the suspended folders, one of which may be inside a new folder.
        whole.formUnion(changes.newFolders)
        for (entry, item) in changes.items { items[entry] = Self.mark(item) }
    }

    /// All known names, including free ones, and the completely known folders.
    var contents: (items: [ItemRow.Entry: ItemKey?], whole: Set<ItemKey>) {
        let known = items.filter { $0.value != Self.unknown }
        return (known.mapValues { $0 == Self.nobody ? nil : ItemKey($0) }, whole)
    }
}

/// A transaction's changes of names.
struct NameChanges {
    /// The new owner of each name; nil for a free name.
    private(set) var items: [ItemRow.Entry: ItemKey?] = [:]
    /// Folders that the transaction created.
    private(set) var newFolders: Set<ItemKey> = []

    mutating func give(_ entry: ItemRow.Entry, to item: ItemKey?) { items[entry] = .some(item) }
    mutating func noteNewFolder(_ key: ItemKey) { newFolders.insert(key) }
}
