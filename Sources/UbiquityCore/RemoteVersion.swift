/// A version of a file beside its current one, as the cloud has it.
package struct RemoteVersion: Hashable, Sendable {
    /// The numbers are sent and never change.
    package enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        case current = 1
        /// Replaced by a later one.
        case history = 2
        /// Lost against another made from the same base, and nobody has decided about it yet.
        case conflict = 3
        /// Was a conflict until somebody decided; kept for a while like history.
        case resolved = 4
    }

    package var content: RemoteContent
    package var kind: Kind
    /// When its author made it, by a clock that the cloud has put right.
    package var modifiedAt: Timestamp
    /// When it reached the cloud.
    package var savedAt: Timestamp
    /// The file's name then.
    package var savedName: ItemName
    /// The version it was made from.
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

    /// Newest first; of two of one time the greater id, which all devices compare alike.
    package func isListed(before other: RemoteVersion) -> Bool {
        (modifiedAt, id) > (other.modifiedAt, other.id)
    }
}

/// A deleted item that the cloud still keeps.
package struct TrashedItem: Hashable, Sendable {
    package var item: RemoteItem
    package var deletedAt: Timestamp
    /// Who deleted it.
    package var device: DeviceID
    /// Where it was, from the top folder, without a slash in front.
    package var path: String

    package init(item: RemoteItem, deletedAt: Timestamp, device: DeviceID, path: String) {
        self.item = item
        self.deletedAt = deletedAt
        self.device = device
        self.path = path
    }

    package var position: TrashPosition { TrashPosition(deletedAt: deletedAt, id: item.id) }
}

/// A place in the trash, which is listed from what was deleted last to what was deleted first.
package struct TrashPosition: Hashable, Sendable {
    package var deletedAt: Timestamp
    package var id: ItemID

    package init(deletedAt: Timestamp, id: ItemID) {
        self.deletedAt = deletedAt
        self.id = id
    }
}

/// What a person decides about one version of a file.
package enum VersionAction: Hashable, Sendable {
    /// A conflict is decided; the version stays as one that is resolved, for as long as history is kept.
    case resolve(VersionID)
    /// The version is not wanted any more: an earlier one goes at once, a conflict is resolved. Never the current one.
    case remove(VersionID)
    /// The version's content is the content of a new version, made from `base`. A conflict is resolved by that.
    case restore(VersionID, as: VersionID, base: VersionID?)

    /// The version it is about.
    package var version: VersionID {
        switch self {
        case .resolve(let version), .remove(let version), .restore(let version, _, _): version
        }
    }
}
