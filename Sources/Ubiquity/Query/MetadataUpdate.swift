/// The changes in a query's results. Each list has the order of the results; each item is in one list.
///
/// - Source: the update keys of `NSMetadataQuery`.
public struct MetadataUpdate: Hashable, Sendable {
    /// The items that match now and did not before.
    public internal(set) var addedItems: [MetadataItem] = []
    /// The items that have changed.
    public internal(set) var changedItems: [MetadataItem] = []
    /// The removed items in their last state.
    public internal(set) var removedItems: [MetadataItem] = []

    /// Whether nothing has changed.
    public var isEmpty: Bool { addedItems.isEmpty && changedItems.isEmpty && removedItems.isEmpty }
}

/// Several updates merged into one, for a reader that missed some. It has at most one entry per item.
struct MergedUpdate: Sendable {
    private enum Change {
        case added, changed, removed
    }

    private var changes: [MetadataItem.ID: (change: Change, item: MetadataItem)] = [:]

    var isEmpty: Bool { changes.isEmpty }

    mutating func add(_ update: MetadataUpdate) {
        for item in update.removedItems {
            // A reader that never saw the item need not learn of its removal.
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
