/// A version of a file, besides its current one, as the cloud has it.
package struct RemoteVersion: Hashable, Sendable {
    /// The numbers are sent and never change.
    package enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        case current = 1
        /// Replaced by a later version.
        case history = 2
        /// Lost to another version with the same base, and not decided yet.
        case conflict = 3
        /// A decided conflict, kept for the same time as history.
        case resolved = 4
    }

    package var content: RemoteContent
    package var kind: Kind
    /// When its author made it, by a clock the cloud has corrected.
    package var modifiedAt: Timestamp
    /// When it reached the cloud.
    package var savedAt: Timestamp
    /// The file's name at that time.
    package var savedName: ItemName
    /// The version it is based on.
    package var baseVersion: VersionID?

    package init(
        content: RemoteContent, kind: Kind, modifiedAt: Timestamp, savedAt: Timestamp, savedName: ItemName,
        baseVersion: VersionID?
    ) {
        self.content = content
        self.kind = kind
        self.modifiedAt = modifiedAt
        self.savedAt = savedAt
        self.savedName = savedName
        self.baseVersion = baseVersion
    }

    package var id: VersionID { content.version }

    /// Returns the order in lists: newest first; at equal times the greater id first, so all devices agree.
    package func isListed(before other: RemoteVersion) -> Bool {
        (modifiedAt, id) > (other.modifiedAt, other.id)
    }
}

/// A deleted item that the cloud still keeps.
package struct TrashedItem: Hashable, Sendable {
    package var item: RemoteItem
    package var deletedAt: Timestamp
    /// The device that deleted it.
    package var device: DeviceID
    /// The former path from the top folder, without a leading slash.
    package var path: String

    package init(item: RemoteItem, deletedAt: Timestamp, device: DeviceID, path: String) {
        self.item = item
        self.deletedAt = deletedAt
        self.device = device
        self.path = path
    }

    package var position: TrashPosition { TrashPosition(deletedAt: deletedAt, id: item.id) }
}

/// A position in the trash, which is listed from the latest deletion to the earliest.
package struct TrashPosition: Hashable, Sendable {
    package var deletedAt: Timestamp
    package var id: ItemID

    package init(deletedAt: Timestamp, id: ItemID) {
        self.deletedAt = deletedAt
        self.id = id
    }
}

/// A user's decision about one version of a file.
package enum VersionAction: Hashable, Sendable {
    /// Resolves a conflict. The version is kept as resolved, as long as history is kept.
    case resolve(VersionID)
    /// Removes a version: an earlier one at once; a conflict is resolved. Never the current version.
    case remove(VersionID)
    /// Makes the version's content a new version based on `base`. This resolves a conflict.
    case restore(VersionID, as: VersionID, base: VersionID?)

    /// The affected version.
    package var version: VersionID {
        switch self {
        case .resolve(let version), .remove(let version), .restore(let version, _, _): version
        }
    }
}
