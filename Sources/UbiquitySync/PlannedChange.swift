package import UbiquityCore
package import UbiquityIndex

/// A change on its way to the cloud, with the row that it was made from. A comparison shows later changes.
package struct PlannedChange: Sendable {
    package var row: ItemRow
    package var change: ItemChange
    /// For a deletion, if the cloud is known to have the item.
    package var deletion: DeletionMoment?
    /// The same for changes of a group that were added along with each other: none goes well without the others.
    package var unit = 0
}

/// The content of a dirty file, read and cut, whose chunks are at the cloud or travel along.
package struct PreparedContent: Sendable, Hashable {
    /// The row's generation that was read.
    package var generation: Int64
    package var manifest: Manifest
    package var size: Int64

    package init(generation: Int64, manifest: Manifest, size: Int64) {
        self.generation = generation
        self.manifest = manifest
        self.size = size
    }
}
