/// What a commit says of a package that its changes are about. Of two devices that changed one without knowing of each
/// other the cloud takes the first, and refuses the second until that has decided about the whole.
package struct PackageEdit: Hashable, Sendable {
    /// The package's folder.
    package var id: ItemID
    /// All that the cloud had of the package at this revision was there when it was changed. Nil is not compared.
    package var base: Revision?
    /// The last of the changes, by the device's clock.
    package var changedAt: Timestamp
    /// The state that has lost, to be kept.
    package var lost: LostPackage?

    package init(id: ItemID, base: Revision?, changedAt: Timestamp, lost: LostPackage? = nil) {
        self.id = id
        self.base = base
        self.changedAt = changedAt
        self.lost = lost
    }
}

/// A whole state of a package that lost against another: a conflict version of its folder. The content is a
/// `PackageTree` and behind it the contents of the files in it.
package struct LostPackage: Hashable, Sendable {
    package var version: VersionID
    /// Size in bytes.
    package var size: Int64
    package var manifest: Manifest
    /// By the device's clock.
    package var modifiedAt: Timestamp
    /// Whose state it was.
    package var device: DeviceID
    package var deviceName: String

    package init(
        version: VersionID, size: Int64, manifest: Manifest, modifiedAt: Timestamp, device: DeviceID, deviceName: String
    ) {
        self.version = version
        self.size = size
        self.manifest = manifest
        self.modifiedAt = modifiedAt
        self.device = device
        self.deviceName = deviceName
    }
}
