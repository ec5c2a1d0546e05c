/// A commit's statement about a package that its changes affect. If two devices change a package independently, the
/// cloud accepts the first. It refuses the second until that device has decided about the whole package.
package struct PackageEdit: Hashable, Sendable {
    /// The package's folder.
    package var id: ItemID
    /// The revision of the package that the change is based on: the device had everything up to it. Nil is not
    /// compared.
    package var base: Revision?
    /// The last of the changes, by the device's clock.
    package var changedAt: Timestamp
    /// The losing state, to be kept.
    package var lost: LostPackage?

    package init(id: ItemID, base: Revision?, changedAt: Timestamp, lost: LostPackage? = nil) {
        self.id = id
        self.base = base
        self.changedAt = changedAt
        self.lost = lost
    }
}

/// The whole state of a package that lost a conflict: a conflict version of its folder. The content is a `PackageTree`,
/// followed by the contents of its files.
package struct LostPackage: Hashable, Sendable {
    package var version: VersionID
    /// Size in bytes.
    package var size: Int64
    package var manifest: Manifest
    /// By the device's clock.
    package var modifiedAt: Timestamp
    /// The device that made the state.
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
