/// A device's change of one item, sent to the cloud: only the changed fields.
package struct ItemChange: Hashable, Sendable {
    package var id: ItemID
    package var kind: ItemKind
    /// The item's revision that this device knew when it made the change; zero for an item the cloud has not seen.
    package var baseRevision: Revision
    /// The time of the change, by this device's clock. The cloud clamps it by its own.
    package var changedAt: Timestamp
    package var action: Action

    package enum Action: Hashable, Sendable {
        case put(ChangedFields)
        case delete
        /// Decisions about versions of a file, at most `Limits.maximumVersionActions`. They do not edit the file.
        case versions([VersionAction])
        /// Restores a deleted item, a folder with everything deleted along with it; at another place if one is given.
        case undelete(Place?)
    }

    package init(id: ItemID, kind: ItemKind, baseRevision: Revision, changedAt: Timestamp, action: Action) {
        self.id = id
        self.kind = kind
        self.baseRevision = baseRevision
        self.changedAt = changedAt
        self.action = action
    }

    /// Returns the time at which a field was changed.
    package func time(of field: FieldTime.Field) -> Timestamp {
        guard case .put(let fields) = action else { return changedAt }
        return fields.earlier[field] ?? changedAt
    }
}

/// The changed fields of an item; nil means unchanged. A creation (base revision zero) has place, mode and times, and
/// the link target or content that its kind needs.
package struct ChangedFields: Hashable, Sendable {
    package var place: Place?
    package var mode: UInt32?
    package var createdAt: Timestamp?
    package var modifiedAt: Timestamp?
    /// Attributes that were set.
    package var xattrsSet: [Xattr]
    /// Names of attributes that were removed.
    package var xattrsRemoved: [[UInt8]]
    package var linkTarget: [UInt8]?
    package var content: ContentChange?
    /// Times of fields changed before the change's `changedAt`; at most one per field.
    package var earlier: [FieldTime]
    /// Fields of a newer program that this one does not know. The cloud keeps them with the item.
    package var unknownFields: [UInt8]

    package init(
        place: Place? = nil, mode: UInt32? = nil, createdAt: Timestamp? = nil, modifiedAt: Timestamp? = nil,
        xattrsSet: [Xattr] = [], xattrsRemoved: [[UInt8]] = [], linkTarget: [UInt8]? = nil,
        content: ContentChange? = nil, earlier: [FieldTime] = [], unknownFields: [UInt8] = []
    ) {
        self.place = place
        self.mode = mode
        self.createdAt = createdAt
        self.modifiedAt = modifiedAt
        self.xattrsSet = xattrsSet
        self.xattrsRemoved = xattrsRemoved
        self.linkTarget = linkTarget
        self.content = content
        self.earlier = earlier
        self.unknownFields = unknownFields
    }
}

package struct Place: Hashable, Sendable {
    package var parent: ItemID
    package var name: ItemName

    package init(parent: ItemID, name: ItemName) {
        self.parent = parent
        self.name = name
    }
}

/// A new content of a file.
package struct ContentChange: Hashable, Sendable {
    package var version: VersionID
    /// The version this one is based on; nil for a new file.
    package var baseVersion: VersionID?
    /// Size in bytes.
    package var size: Int64
    /// Nil announces the version: its size is known, and a later change with the same version id sends its chunks.
    package var manifest: Manifest?

    package init(version: VersionID, baseVersion: VersionID?, size: Int64, manifest: Manifest?) {
        self.version = version
        self.baseVersion = baseVersion
        self.size = size
        self.manifest = manifest
    }
}
