/// One version of a file.
package struct VersionReport: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, CaseIterable, Hashable, Sendable {
        case current
        /// Replaced by a later one.
        case history
        /// Lost against another made from the same state; nobody has decided yet.
        case conflict
        /// A conflict that somebody has decided.
        case resolved
    }

    package var id: String
    package var kind: Kind
    /// Its name in the folder `.versions/FILE/`; nil if it does not stand there.
    package var name: String?
    /// The file's name when it was saved.
    package var displayName: String
    package var device: String
    /// Seconds since 1970-01-01 UTC.
    package var modifiedAt: Double
    /// Bytes.
    package var size: Int64
    /// Whether its content has reached the cloud.
    package var isAvailable: Bool
    /// Why the merge command of its file type did not merge it; nil if none was run, or none is configured.
    package var mergeError: String?

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

/// The versions of a file, the current one first, then unresolved conflicts, then the others from the newest back.
package struct VersionsReport: Codable, Hashable, Sendable {
    package var path: String
    package var versions: [VersionReport]
    /// Why earlier versions are missing: the cloud is away. Conflicts are told all the same.
    package var incomplete: String?

    package init(path: String, versions: [VersionReport], incomplete: String? = nil) {
        self.path = path
        self.versions = versions
        self.incomplete = incomplete
    }
}

/// Which of the versions in conflict is to be kept.
package struct ResolveRequest: Codable, Hashable, Sendable {
    package static let current = "current"
    package static let both = "both"

    package var path: String
    /// `current`, `both`, or a version: its id (or the beginning of it) or its name in `.versions`.
    package var keep: String
    /// The process that asks: what it, or what started it, has claimed does not hold it up.
    package var process: Int32?

    package init(path: String, keep: String, process: Int32? = nil) {
        self.path = path
        self.keep = keep
        self.process = process
    }
}

/// Why a version that was chosen is not what a file shows.
package enum VersionAwaits: String, Codable, CaseIterable, Hashable, Sendable {
    /// The cloud has not heard of the decision.
    case cloud
    /// Its content is on its way.
    case content
    /// A program has the file open for writing.
    case writer
    /// Somebody has changed the file again since.
    case laterEdit = "later-edit"
}

package struct ResolveReport: Codable, Hashable, Sendable {
    package var path: String
    /// Conflicts that were resolved.
    package var resolved: Int
    /// Documents that conflict versions were kept as.
    package var kept: [String]
    /// The version that was chosen is not shown yet.
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
    /// Where to put it; nil: in the place of the current version.
    package var to: String?
    /// The process that asks: what it, or what started it, has claimed does not hold it up.
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
    /// It is not in its place yet.
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
    /// What was deleted in this deleted folder; nil: what was not deleted along with its folder.
    package var folder: String?
    /// Items wanted, newest first.
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
    /// Where it was, from the mount's root, without a slash in front.
    package var path: String
    /// "file", "directory" or "symlink".
    package var kind: String
    package var size: Int64
    /// Seconds since 1970-01-01 UTC.
    package var deletedAt: Double
    /// Unresolved conflict versions that it has kept; they come back with it. Nil from a daemon that does not say.
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
    /// The item's id, or the path it had.
    package var item: String
    /// Where to put it; nil: where it was.
    package var to: String?

    package init(item: String, to: String? = nil) {
        self.item = item
        self.to = to
    }
}

package struct TrashRestoreReport: Codable, Hashable, Sendable {
    /// Where it is now; what is known of that, if its folder has not come here yet.
    package var path: String?
    /// Items that came back: of a folder also what was deleted along with it.
    package var items: Int

    package init(path: String?, items: Int) {
        self.path = path
        self.items = items
    }
}
