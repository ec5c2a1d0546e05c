/// An item as the cloud has it: its whole state after the commit with number `revision`.
///
/// The change feed consists of these records. A record replaces everything a device knew of the item, so reading one
/// twice or skipping an older one does no harm.
package struct RemoteItem: Hashable, Sendable {
    package var id: ItemID
    package var kind: ItemKind
    package var revision: Revision
    package var isDeleted: Bool
    package var parent: ItemID
    package var name: ItemName
    /// Permission bits, 0o7777.
    package var mode: UInt32
    package var createdAt: Timestamp
    /// The file's mtime on the device that made it.
    package var modifiedAt: Timestamp
    /// Sorted by name.
    package var xattrs: [Xattr]
    /// A symlink's text; for a hard link, the 16 bytes of its target's id; otherwise empty.
    package var linkTarget: [UInt8]
    /// A file's content; nil for directories and symlinks.
    package var content: RemoteContent?
    /// The number of unresolved conflict versions.
    package var conflictCount: Int
    /// The unresolved conflict versions, at most `Limits.maximumConflictsInRecord`, ordered by id.
    package var conflicts: [RemoteVersion]
    /// Whether the cloud keeps earlier versions of the item.
    package var hasHistory: Bool
    /// Fields of a newer cloud that this program does not know, kept unchanged.
    package var unknownFields: [UInt8]

    package init(
        id: ItemID, kind: ItemKind, revision: Revision, isDeleted: Bool = false, parent: ItemID, name: ItemName,
        mode: UInt32, createdAt: Timestamp, modifiedAt: Timestamp, xattrs: [Xattr] = [], linkTarget: [UInt8] = [],
        content: RemoteContent? = nil, conflictCount: Int = 0, conflicts: [RemoteVersion] = [],
        hasHistory: Bool = false, unknownFields: [UInt8] = []
    ) {
        self.id = id
        self.kind = kind
        self.revision = revision
        self.isDeleted = isDeleted
        self.parent = parent
        self.name = name
        self.mode = mode
        self.createdAt = createdAt
        self.modifiedAt = modifiedAt
        self.xattrs = xattrs
        self.linkTarget = linkTarget
        self.content = content
        self.conflictCount = conflictCount
        self.conflicts = conflicts
        self.hasHistory = hasHistory
        self.unknownFields = unknownFields
    }
}

extension RemoteItem {
    /// Whether the cloud has lost its record of the file's content.
    package var hasLostContent: Bool { content?.isLost ?? false }
}

/// The current version of a file at the cloud.
package struct RemoteContent: Hashable, Sendable {
    package var version: VersionID
    /// Size in bytes.
    package var size: Int64
    /// False while the cloud has only the metadata: the device that made the content is still uploading it.
    package var isAvailable: Bool
    package var device: DeviceID
    package var deviceName: String
    /// The chunks, if there are at most `Limits.inlineManifestChunks`; longer lists are requested by version.
    package var manifest: Manifest?

    /// Returns the content a cloud reports when it has lost its record. It belongs to no device, so it differs from an
    /// announced one.
    package static func lost(_ version: VersionID, size: Int64) -> RemoteContent {
        RemoteContent(
            version: version, size: size, isAvailable: false, device: DeviceID(high: 0, low: 0), deviceName: "",
            manifest: nil)
    }

    package var isLost: Bool { !isAvailable && device == DeviceID(high: 0, low: 0) }

    /// The reason why the cloud does not have the content; nil if it does.
    package var whyNotHere: UbiquityError? {
        if isLost {
            return UbiquityError(
                .damaged, "the cloud has lost its record of the content",
                remedy: "run 'ubiquity doctor' on a device that has the file")
        }
        guard !isAvailable else { return nil }
        return UbiquityError(
            .notUploadedYet, "\(deviceName) has not uploaded the content yet",
            remedy: "the download starts by itself once that device has uploaded it")
    }

    package init(
        version: VersionID, size: Int64, isAvailable: Bool, device: DeviceID, deviceName: String, manifest: Manifest?
    ) {
        self.version = version
        self.size = size
        self.isAvailable = isAvailable
        self.device = device
        self.deviceName = deviceName
        self.manifest = manifest
    }
}
