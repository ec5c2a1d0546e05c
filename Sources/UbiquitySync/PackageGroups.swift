internal import UbiquityCore
internal import UbiquityIndex

/// Changes of packages that go up together: of one, or of several that a change is about, as something was moved from
/// one to the other. Apart, none of these could be decided about should it have met another state.
struct PackageChanges: Sendable {
    var packages: Set<ItemKey>
    /// In the order in which they became dirty.
    var rows: [ItemRow]
}

/// Puts the changes of packages together.
struct PackageGroups {
    private var places: [ItemKey: Int] = [:]
    /// Nil: joined to another.
    private var groups: [PackageChanges?] = []

    var isEmpty: Bool { groups.isEmpty }
    var packages: Set<ItemKey> { Set(places.keys) }

    /// - Parameter packages: what the change is about, at least one.
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

    /// In the order of what was changed first.
    func ordered(without held: Set<ItemKey>) -> [PackageChanges] {
        groups.compactMap { group in
            guard var group, group.packages.isDisjoint(with: held) else { return nil }
            group.rows.sort { $0.dirtyOrder < $1.dirtyOrder }
            return group
        }.sorted { $0.rows[0].dirtyOrder < $1.rows[0].dirtyOrder }
    }
}
