/// Why a program has added a version.
package enum VersionOrigin: String, Codable, CaseIterable, Hashable, Sendable {
    case autosaved
    case manual
    /// The content that a restored version replaced.
    case restored
}

/// `ControlRoute.addVersion`: adds a version to a file. It stays on this device.
package struct VersionAddition: Codable, Hashable, Sendable {
    package var path: String
    /// The name of the content in the folder `ControlRoute.incomingName` of the state folder. The daemon takes it.
    package var content: String
    package var origin: VersionOrigin
    /// Whether the daemon may remove it to make space.
    package var isDiscardable: Bool
    /// Seconds since 1970-01-01 UTC; nil means now.
    package var modifiedAt: Double?

    package init(
        path: String, content: String, origin: VersionOrigin, isDiscardable: Bool, modifiedAt: Double? = nil
    ) {
        self.path = path
        self.content = content
        self.origin = origin
        self.isDiscardable = isDiscardable
        self.modifiedAt = modifiedAt
    }
}

/// `ControlRoute.changeVersion`: changes a version that a program has added.
package struct VersionChange: Codable, Hashable, Sendable {
    package var path: String
    package var version: String
    package var isDiscardable: Bool

    package init(path: String, version: String, isDiscardable: Bool) {
        self.path = path
        self.version = version
        self.isDiscardable = isDiscardable
    }
}

/// One version of a file.
package struct VersionReport: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, CaseIterable, Hashable, Sendable {
        case current
        /// Replaced by a later one.
        case history
        /// It lost against another version made from the same state, and is undecided.
        case conflict
        /// A conflict that was decided.
        case resolved
    }

    package var id: String
    package var kind: Kind
    /// Its name in the folder `.versions/FILE/`; nil if it is not in there.
    package var name: String?
    /// The file's name when it was saved.
    package var displayName: String
    package var device: String
    /// Seconds since 1970-01-01 UTC.
    package var modifiedAt: Double
    /// In bytes.
    package var size: Int64
    /// Whether its content is in the cloud.
    package var isAvailable: Bool
    /// Why the merge command of its file type did not merge it; nil if no command ran or is configured.
    package var mergeError: String?
    /// Why a program on this device has added it; nil for other versions.
    package var origin: VersionOrigin?
    /// Whether the daemon may remove it to make space; only for versions that programs have added.
    package var isDiscardable: Bool?

    package init(
        id: String, kind: Kind, name: String?, displayName: String, device: String, modifiedAt: Double, size: Int64,
        isAvailable: Bool, mergeError: String? = nil
    ) {
        self.id = id
        self.kind = kind
        self.name = name
        self.displayName = displayName
        self.device = device
        self.modifiedAt = modifiedAt
        self.size = size
        self.isAvailable = isAvailable
        self.mergeError = mergeError
    }
}

/// The versions of a file: the current one, then unresolved conflicts, then the others from the newest back.
package struct VersionsReport: Codable, Hashable, Sendable {
    package var path: String
    package var versions: [VersionReport]
    /// Why earlier versions are missing: the cloud is unreachable. Conflicts are listed in any case.
    package var incomplete: String?

    package init(path: String, versions: [VersionReport], incomplete: String? = nil) {
        self.path = path
        self.versions = versions
        self.incomplete = incomplete
    }
}

/// Selects the version in conflict to keep.
package struct ResolveRequest: Codable, Hashable, Sendable {
    package static let current = "current"
    package static let both = "both"

    package var path: String
    /// `current`, `both`, or a version: its id (or the beginning of it) or its name in `.versions`.
    package var keep: String
    /// The calling process: claims of it or of its ancestors do not block the request.
    package var process: Int32?

    package init(path: String, keep: String, process: Int32? = nil) {
        self.path = path
        self.keep = keep
        self.process = process
    }
}

/// Why the file does not show the chosen version yet.
package enum VersionAwaits: String, Codable, CaseIterable, Hashable, Sendable {
    /// The cloud does not have the decision yet.
    case cloud
    /// The content is being downloaded.
    case content
    /// A program has the file open for writing.
    case writer
    /// The file was changed again since.
    case laterEdit = "later-edit"
}

package struct ResolveReport: Codable, Hashable, Sendable {
    package var path: String
    /// Number of conflicts resolved.
    package var resolved: Int
    /// Paths of documents as which conflict versions were kept.
    package var kept: [String]
    /// Whether the file does not show the chosen version yet.
    package var isQueued: Bool
    /// What that waits for.
    package var awaits: VersionAwaits?

    package init(path: String, resolved: Int, kept: [String] = [], awaits: VersionAwaits? = nil) {
        self.path = path
        self.resolved = resolved
        self.kept = kept
        isQueued = awaits != nil
        self.awaits = awaits
    }
}

package struct RestoreRequest: Codable, Hashable, Sendable {
    package var path: String
    /// Its id (or the beginning of it) or its name in `.versions`.
    package var version: String
    /// The target path; nil to replace the current version.
    package var to: String?
    /// The calling process: claims of it or of its ancestors do not block the request.
    package var process: Int32?

    package init(path: String, version: String, to: String? = nil, process: Int32? = nil) {
        self.path = path
        self.version = version
        self.to = to
        self.process = process
    }
}

package struct RestoreReport: Codable, Hashable, Sendable {
    package var path: String
    package var version: String
    /// Whether the version is not in its place yet.
    package var isQueued: Bool
    /// What that waits for.
    package var awaits: VersionAwaits?

    package init(path: String, version: String, awaits: VersionAwaits? = nil) {
        self.path = path
        self.version = version
        isQueued = awaits != nil
        self.awaits = awaits
    }
}

// MARK: The trash

package struct TrashRequest: Codable, Hashable, Sendable {
    /// The deleted folder whose contents to list; nil for items that were not deleted along with their folder.
    package var folder: String?
    /// Largest number of items, newest first.
    package var limit: Int

    package init(folder: String? = nil, limit: Int) {
        self.folder = folder
        self.limit = limit
    }
}

package struct TrashReport: Codable, Hashable, Sendable {
    package var items: [TrashEntry]
    package var hasMore: Bool

    package init(items: [TrashEntry], hasMore: Bool) {
        self.items = items
        self.hasMore = hasMore
    }
}

/// A deleted item.
package struct TrashEntry: Codable, Hashable, Sendable {
    package var id: String
    /// Its path before the deletion, from the mount's root, without a slash in front.
    package var path: String
    /// "file", "directory" or "symlink".
    package var kind: String
    package var size: Int64
    /// Seconds since 1970-01-01 UTC.
    package var deletedAt: Double
    /// Number of its unresolved conflict versions; they are restored with it. Nil from a daemon that does not report
    /// it.
    package var conflicts: Int?

    package init(id: String, path: String, kind: String, size: Int64, deletedAt: Double, conflicts: Int?) {
        self.id = id
        self.path = path
        self.kind = kind
        self.size = size
        self.deletedAt = deletedAt
        self.conflicts = conflicts
    }
}

package struct TrashRestoreRequest: Codable, Hashable, Sendable {
    /// The item's id, or its path before the deletion.
    package var item: String
    /// The target path; nil for the original place.
    package var to: String?

    package init(item: String, to: String? = nil) {
        self.item = item
        self.to = to
    }
}

package struct TrashRestoreReport: Codable, Hashable, Sendable {
    /// The present path; an estimate if its folder has not arrived yet.
    package var path: String?
    /// Number of restored items: for a folder including the items deleted along with it.
    package var items: Int

    package init(path: String?, items: Int) {
        self.path = path
        self.items = items
    }
}
