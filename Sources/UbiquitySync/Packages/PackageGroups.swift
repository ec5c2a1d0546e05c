internal import UbiquityCore
internal import UbiquityIndex

/// Changes of packages that are uploaded together. A group has several packages if an item was moved from one to
/// another. Sent separately, no decision would be possible about either if it met another state.
struct PackageChanges: Sendable {
    var packages: Set<ItemKey>
    /// In the order in which they became dirty.
    var rows: [ItemRow]
}

/// Groups the changes of packages.
struct PackageGroups {
    private var places: [ItemKey: Int] = [:]
    /// Nil for a group that was joined to another.
    private var groups: [PackageChanges?] = []

    var isEmpty: Bool { groups.isEmpty }
    var packages: Set<ItemKey> { Set(places.keys) }

    /// - Parameter packages: the packages that the change concerns, at least one.
    mutating func add(_ row: ItemRow, of packages: Set<ItemKey>) {
        let known = Set(packages.compactMap { places[$0] }).sorted()
        guard let first = known.first else {
            for package in packages { places[package] = groups.count }
            return groups.append(PackageChanges(packages: packages, rows: [row]))
        }
        for place in known.dropFirst() { join(place, to: first) }
        for package in packages { places[package] = first }
        groups[first]?.packages.formUnion(packages)
        groups[first]?.rows.append(row)
    }

    private mutating func join(_ place: Int, to first: Int) {
        guard let other = groups[place] else { return }
        groups[place] = nil
        for package in other.packages { places[package] = first }
        groups[first]?.packages.formUnion(other.packages)
        groups[first]?.rows += other.rows
    }

    /// The groups in the order of their oldest change.
    func ordered(without held: Set<ItemKey>) -> [PackageChanges] {
        groups.compactMap { group in
            guard var group, group.packages.isDisjoint(with: held) else { return nil }
            group.rows.sort { $0.dirtyOrder < $1.dirtyOrder }
            return group
        }.sorted { $0.rows[0].dirtyOrder < $1.rows[0].dirtyOrder }
    }
}
