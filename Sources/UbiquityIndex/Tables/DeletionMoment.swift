package import UbiquityCore

/// The time of a local deletion, and the item's place at the cloud.
package struct DeletionMoment: Hashable, Sendable {
    package var time: Timestamp
    package var folder: ItemID
    package var name: ItemName
    /// When this device made the item; nil if another device made or changed it.
    package var madeAt: Timestamp?
    /// The device that wrote the current content; nil for an item without content.
    package var writer: DeviceID?

    package init(
        time: Timestamp, folder: ItemID, name: ItemName, madeAt: Timestamp? = nil, writer: DeviceID? = nil
    ) {
        self.time = time
        self.folder = folder
        self.name = name
        self.madeAt = madeAt
        self.writer = writer
    }

    /// Makes the moment of a pending deletion.
    ///
    /// - Parameter known: The cloud's record of the item.
    package init(of row: ItemRow, known: RemoteItem) {
        self.init(time: row.dirtyAt, folder: known.parent, name: known.name, writer: known.content?.device)
        if row.flags.contains(.madeHere), known.conflictCount == 0 { madeAt = row.createdAt }
    }

    /// Returns whether `device` made the item at most `age` seconds before the deletion, and no other device changed
    /// it.
    package func isOfFreshItem(madeOn device: DeviceID, within age: Double) -> Bool {
        guard let madeAt, writer == nil || writer == device else { return false }
        return madeAt <= time && madeAt.advanced(bySeconds: age) > time
    }
}
