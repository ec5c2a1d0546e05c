import UbiquityControl

/// An update that comes in parts, until its last. What is told of an item later counts.
struct PartialUpdate: Sendable {
    private var told: [MetadataItem] = []
    /// Items that were told to be gone, and how many had been told to be there by then.
    private var goneAt: [MetadataItem.ID: Int] = [:]

    mutating func add(present: [MetadataItem], gone: [MetadataItem.ID]) {
        for id in gone { goneAt[id] = told.count }
        told += present
    }

    var gone: [MetadataItem.ID] { Array(goneAt.keys) }

    /// Without those that went after they were told.
    var present: [MetadataItem] {
        guard !goneAt.isEmpty else { return told }
        return told.enumerated().filter { $0.offset >= goneAt[$0.element.id] ?? 0 }.map(\.element)
    }
}

/// A query's results as they are told by the daemon, in their order: the state of a query, without its connection.
struct QueryResults: Sendable {
    /// Changes at a time up to which each is put in its place; with more, all are sorted when they are next asked for.
    /// (Among 200,000 results a place is found in 18 steps, and making room moves half of them.)
    private static let maximumPlaced = 64

    let order: MetadataOrder
    private var known: [MetadataItem.ID: MetadataItem] = [:]
    private var sorted: [MetadataItem] = []
    private var isSorted = true

    init(order: MetadataOrder) { self.order = order }

    var count: Int { known.count }

    /// In order.
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

    /// Takes what was told.
    /// - Parameters:
    ///   - present: Items that are results, new or not.
    ///   - gone: Items that are results no more.
    /// - Returns: what is other than before. An item that is told of and is as it was is none.
    mutating func take(present: [MetadataItem], gone: [MetadataItem.ID]) -> MetadataUpdate {
        var merged = MergedUpdate()
        var outdated = [MetadataItem](), new = [MetadataItem]()
        for id in gone {
            guard let item = known.removeValue(forKey: id) else { continue }
            merged.add(MetadataUpdate(removedItems: [item]))
            outdated.append(item)
        }
        // Told of twice, the last word counts.
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

    /// As results come while they are gathered: in order, unless another one was asked for.
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

    /// The first place whose item does not stand before this one.
    private func position(of item: MetadataItem) -> Int {
        var (low, high) = (0, sorted.count)
        while low < high {
            let middle = (low + high) / 2
            if order.precedes(sorted[middle], item) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
