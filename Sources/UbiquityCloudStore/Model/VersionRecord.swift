package import UbiquityCore

/// One content of a file that the cloud keeps.
package struct VersionRecord: Hashable, Sendable {
    /// The numbers are stored and never change.
    package enum Role: Int64, Hashable, Sendable {
        case current = 1
        /// Replaced by a version made from it (or by resolving a conflict); kept for a while.
        case history = 2
        /// It lost against another version made from the same base; kept until it is resolved.
        case conflict = 3
        /// A decided conflict; kept like history.
        case resolved = 4
    }

    package var id: VersionID
    package var item: ItemID
    package var role: Role
    /// Size in bytes.
    package var size: Int64
    /// The file's mtime by the cloud's clock, not after the commit and not before the version it replaced. It decides
    /// conflicts.
    package var modifiedAt: Timestamp
    package var device: DeviceID
    package var deviceName: String
    package var baseVersion: VersionID?
    /// The file's name when the version was saved.
    package var savedName: ItemName
    /// Nil while only the metadata has arrived.
    package var manifest: Manifest?
    /// The cloud's time of the commit that brought it.
    package var savedAt: Timestamp
    /// When it became history or resolved; nil for others.
    package var supersededAt: Timestamp?
    /// The common ancestor of a conflict and the current version. It is kept for as long as the conflict is open.
    package var ancestor: VersionID?

    package init(
        id: VersionID, item: ItemID, role: Role, size: Int64, modifiedAt: Timestamp, device: DeviceID,
        deviceName: String, baseVersion: VersionID?, savedName: ItemName, manifest: Manifest?, savedAt: Timestamp,
        supersededAt: Timestamp? = nil
    ) {
        self.id = id
        self.item = item
        self.role = role
        self.size = size
        self.modifiedAt = modifiedAt
        self.device = device
        self.deviceName = deviceName
        self.baseVersion = baseVersion
        self.savedName = savedName
        self.manifest = manifest
        self.savedAt = savedAt
        self.supersededAt = supersededAt
    }

    package var isAvailable: Bool { manifest != nil }

    /// Of two versions made from one base the newer wins. Equal times are decided by the ids, which all clouds and
    /// devices compare alike.
    package func wins(over other: VersionRecord) -> Bool {
        (modifiedAt, id) > (other.modifiedAt, other.id)
    }

    /// Whether both are stored and have the same chunks.
    package func hasContent(of other: VersionRecord) -> Bool { manifest != nil && manifest == other.manifest }

    /// Whether both come from one base by the same edit, whichever device made it.
    package func isSameEdit(as other: VersionRecord) -> Bool {
        hasContent(of: other) && baseVersion == other.baseVersion
    }

    package var remoteContent: RemoteContent {
        RemoteContent(
            version: id, size: size, isAvailable: isAvailable, device: device, deviceName: deviceName,
            manifest: manifest.flatMap { $0.count <= Limits.inlineManifestChunks ? $0 : nil })
    }

    /// The version as devices see it.
    package var remoteVersion: RemoteVersion {
        let kind: RemoteVersion.Kind =
            switch role {
            case .current: .current
            case .history: .history
            case .conflict: .conflict
            case .resolved: .resolved
            }
        return RemoteVersion(
            content: remoteContent, kind: kind, modifiedAt: modifiedAt, savedAt: savedAt, savedName: savedName,
            baseVersion: baseVersion)
    }
}
