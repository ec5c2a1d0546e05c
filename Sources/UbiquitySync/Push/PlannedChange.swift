package import UbiquityCore
package import UbiquityIndex

/// A change on its way to the cloud, with the row that it was made from. A comparison shows later changes.
package struct PlannedChange: Sendable {
    package var row: ItemRow
    package var change: ItemChange
    /// For a deletion, if the cloud is known to have the item.
    package var deletion: DeletionMoment?
    /// Changes that were added together have the same number: none can be applied without the others.
    package var unit = 0
}

/// The content of a dirty file, scanned and cut. Its chunks are at the cloud or travel inside the commit.
package struct PreparedContent: Sendable, Hashable {
    /// The row's generation at the scan.
    package var generation: Int64
    package var manifest: Manifest
    package var size: Int64

    package init(generation: Int64, manifest: Manifest, size: Int64) {
        self.generation = generation
        self.manifest = manifest
        self.size = size
    }
}
