package import UbiquityCore

/// When a group of an item's fields last changed, and on which device. Of two independent changes the one with the
/// later stamp wins.
package struct FieldStamp: Hashable, Sendable, Comparable {
    /// The commit that changed the fields.
    package var revision: Revision
    /// The device's time of the change, at most the cloud's time of the commit.
    package var time: Timestamp
    package var device: DeviceID

    package init(revision: Revision, time: Timestamp, device: DeviceID) {
        self.revision = revision
        self.time = time
        self.device = device
    }

    package static func < (left: Self, right: Self) -> Bool {
        (left.time, left.device) < (right.time, right.device)
    }
}

/// The stamps of an item, one for each group of fields that changes together.
package struct ItemStamps: Hashable, Sendable {
    package var place: FieldStamp
    package var mode: FieldStamp
    /// Creation and modification time.
    package var times: FieldStamp
    /// The current version, the conflict versions and a symlink's text; for a package's folder, its contents.
    package var content: FieldStamp
    /// Deleted or not.
    package var existence: FieldStamp
    /// By attribute name; includes removed attributes.
    package var xattrs: [[UInt8]: FieldStamp]

    package init(_ first: FieldStamp) {
        place = first
        mode = first
        times = first
        content = first
        existence = first
        xattrs = [:]
    }
}

/// An item as the cloud stores it. Devices see a `RemoteItem`, made from this record and its current version.
package struct ItemRecord: Hashable, Sendable {
    package var id: ItemID
    package var kind: ItemKind
    /// The last commit that changed it; its position in the change feed.
    package var revision: Revision
    /// The cloud's time of the deletion; nil while the item is live.
    package var deletedAt: Timestamp?
    package var parent: ItemID
    package var name: ItemName
    package var mode: UInt32
    package var createdAt: Timestamp
    package var modifiedAt: Timestamp
    /// Sorted by name.
    package var xattrs: [Xattr] = []
    package var linkTarget: [UInt8] = []
    /// A file's current version.
    package var version: VersionID?
    /// The size of the current version in bytes.
    package var size: Int64 = 0
    /// Number of unresolved conflict versions, and their bytes.
    package var conflictCount = 0
    package var conflictBytes: Int64 = 0
    /// Whether there may be earlier versions. (It stays set after the last one is gone, until the upkeep checks.)
    package var hasHistory = false
    package var stamps: ItemStamps
    /// Fields that a newer program has set (`UnknownFields`).
    package var unknownFields: [UInt8] = []

    package var isLive: Bool { deletedAt == nil }

    /// The item's share of the account's usage: the data that the user sees. Trash and history do not count; they
    /// expire by themselves.
    package var usedBytes: Int64 { isLive ? size + conflictBytes : 0 }

    /// The top folder, which exists without being created. It is stored after the first change of its mode or
    /// attributes.
    package static var root: ItemRecord {
        ItemRecord(
            id: .root, kind: .directory, revision: .zero, parent: .root, name: ItemName(stored: []), mode: 0o755,
            createdAt: .zero, modifiedAt: .zero,
            stamps: ItemStamps(FieldStamp(revision: .zero, time: .zero, device: DeviceID(high: 0, low: 0))))
    }

    package init(
        id: ItemID, kind: ItemKind, revision: Revision, parent: ItemID, name: ItemName, mode: UInt32,
        createdAt: Timestamp, modifiedAt: Timestamp, stamps: ItemStamps
    ) {
        self.id = id
        self.kind = kind
        self.revision = revision
        self.parent = parent
        self.name = name
        self.mode = mode
        self.createdAt = createdAt
        self.modifiedAt = modifiedAt
        self.stamps = stamps
    }

    /// The content to report if the record of the file's version is lost: devices see that there is one, and a device
    /// that has it can upload it again.
    private var lostContent: RemoteContent? { version.map { .lost($0, size: size) } }

    /// The item as devices see it.
    /// - Parameters:
    ///   - version: the record of the current version, for a file.
    ///   - conflicts: the unresolved conflict versions, in the order of their ids.
    package func remoteItem(_ version: VersionRecord?, conflicts: [VersionRecord]) -> RemoteItem {
        RemoteItem(
            id: id, kind: kind, revision: revision, isDeleted: !isLive, parent: parent, name: name, mode: mode,
            createdAt: createdAt, modifiedAt: modifiedAt, xattrs: xattrs, linkTarget: linkTarget,
            content: version?.remoteContent ?? lostContent, conflictCount: conflictCount,
            conflicts: conflicts.prefix(Limits.maximumConflictsInRecord).map(\.remoteVersion), hasHistory: hasHistory,
            unknownFields: unknownFields)
    }
}
