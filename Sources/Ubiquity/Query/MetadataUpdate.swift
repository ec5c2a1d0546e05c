/// What has become other in a query's results: lists in the order of the results, each item in one of them.
public struct MetadataUpdate: Hashable, Sendable {
    public internal(set) var addedItems: [MetadataItem] = []
    public internal(set) var changedItems: [MetadataItem] = []
    /// As they were last.
    public internal(set) var removedItems: [MetadataItem] = []

    public var isEmpty: Bool { addedItems.isEmpty && changedItems.isEmpty && removedItems.isEmpty }
}

/// Several updates as one: for whoever has not looked since the first. It never has more than one entry for an item.
struct MergedUpdate: Sendable {
    private enum Change {
        case added, changed, removed
    }

    private var changes: [MetadataItem.ID: (change: Change, item: MetadataItem)] = [:]

    var isEmpty: Bool { changes.isEmpty }

    mutating func add(_ update: MetadataUpdate) {
        for item in update.removedItems {
            // Who has not heard of it need not hear that it is gone.
            if changes.removeValue(forKey: item.id)?.change != .added { changes[item.id] = (.removed, item) }
        }
        for item in update.addedItems {
            changes[item.id] = (changes[item.id]?.change == .removed ? .changed : .added, item)
        }
        for item in update.changedItems {
            changes[item.id] = (changes[item.id]?.change == .added ? .added : .changed, item)
        }
    }

    func update(in order: MetadataOrder) -> MetadataUpdate {
        func items(_ change: Change) -> [MetadataItem] {
            changes.values.filter { $0.change == change }.map(\.item).sorted(by: order.precedes)
        }
        return MetadataUpdate(
            addedItems: items(.added), changedItems: items(.changed), removedItems: items(.removed))
    }
}
