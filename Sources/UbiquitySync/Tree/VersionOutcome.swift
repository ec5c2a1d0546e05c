internal import UbiquityCore
internal import UbiquityWire

// The cloud's answer about a version that this device sent.

extension ContentChange {
    /// Whether the cloud kept the version neither as current nor as a conflict, because it was no edit of its base.
    func isPassedOver(_ item: RemoteItem?) -> Bool {
        guard baseVersion != nil, let item, !item.isDeleted, item.content != nil else { return false }
        return !isKnown(by: item)
    }

    /// Whether the version is current or in conflict, as far as the item tells. The item lists only some conflicts.
    func isKnown(by item: RemoteItem?) -> Bool {
        guard let item, let current = item.content, item.conflicts.count == item.conflictCount else { return true }
        return current.version == version || item.conflicts.contains { $0.id == version }
    }
}
