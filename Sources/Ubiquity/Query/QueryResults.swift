import UbiquityControl

/// An update that arrives in several parts. A later part overrides an earlier one.
struct PartialUpdate: Sendable {
    private var told: [MetadataItem] = []
    /// Removed items, each with the number of items reported before its removal.
    private var goneAt: [MetadataItem.ID: Int] = [:]

    mutating func add(present: [MetadataItem], gone: [MetadataItem.ID]) {
        for id in gone { goneAt[id] = told.count }
        told += present
    }

    var gone: [MetadataItem.ID] { Array(goneAt.keys) }

    /// The reported items, without those removed after their report.
    var present: [MetadataItem] {
        guard !goneAt.isEmpty else { return told }
        return told.enumerated().filter { $0.offset >= goneAt[$0.element.id] ?? 0 }.map(\.element)
    }
}

/// A query's sorted results as reported by the daemon. This is a query's state without its connection.
struct QueryResults: Sendable {
    /// Up to this many changes are inserted one by one; more are sorted together at the next read. (Among 200,000
    /// results a search takes 18 steps, and an insertion moves half of the array.)
    private static let maximumPlaced = 64

    let order: MetadataOrder
    private var known: [MetadataItem.ID: MetadataItem] = [:]
    private var sorted: [MetadataItem] = []
    private var isSorted = true

    init(order: MetadataOrder) { self.order = order }

    var count: Int { known.count }

    /// The results in order.
    mutating func items() -> [MetadataItem] {
        if !isSorted {
            sorted.sort(by: order.precedes)
            isSorted = true
        }
        return sorted
    }

    subscript(id: MetadataItem.ID) -> MetadataItem? { known[id] }

    /// The results of one mount.
    func ids(at mountPoint: String) -> [MetadataItem.ID] { known.keys.filter { $0.mountPoint == mountPoint } }

    /// Applies a report.
    ///
    /// - Parameters:
    ///   - present: Items that are results, new or not.
    ///   - gone: Items that are no longer results.
    /// - Returns: The differences. A reported item that is unchanged is not among them.
    mutating func take(present: [MetadataItem], gone: [MetadataItem.ID]) -> MetadataUpdate {
        var merged = MergedUpdate()
        var outdated = [MetadataItem](), new = [MetadataItem]()
        for id in gone {
            guard let item = known.removeValue(forKey: id) else { continue }
            merged.add(MetadataUpdate(removedItems: [item]))
            outdated.append(item)
        }
        // If an item is reported twice, the last report counts.
        let last = Dictionary(present.map { ($0.id, $0) }) { $1 }
        for item in present where last[item.id] == item {
            let before = known.updateValue(item, forKey: item.id)
            guard before != item else { continue }
            let isNew = before == nil
            merged.add(MetadataUpdate(addedItems: isNew ? [item] : [], changedItems: isNew ? [] : [item]))
            if let before { outdated.append(before) }
            new.append(item)
        }
        place(outdated, new)
        return merged.update(in: order)
    }

    private mutating func place(_ outdated: [MetadataItem], _ new: [MetadataItem]) {
        guard isSorted, outdated.count + new.count <= Self.maximumPlaced else { return append(outdated, new) }
        for item in outdated {
            let position = position(of: item)
            if position < sorted.count, sorted[position].id == item.id { sorted.remove(at: position) }
        }
        for item in new { sorted.insert(item, at: position(of: item)) }
    }

    /// Appends results during gathering. They arrive in order, unless the query has sort descriptors.
    private mutating func append(_ outdated: [MetadataItem], _ new: [MetadataItem]) {
        guard outdated.isEmpty else {
            sorted = Array(known.values)
            isSorted = false
            return
        }
        for item in new {
            if let last = sorted.last, isSorted, order.precedes(item, last) { isSorted = false }
            sorted.append(item)
        }
    }

    /// Returns the first position whose item does not precede this one.
    private func position(of item: MetadataItem) -> Int {
        var (low, high) = (0, sorted.count)
        while low < high {
            let middle = (low + high) / 2
            if order.precedes(sorted[middle], item) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
