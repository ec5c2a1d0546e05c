internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

/// State of the push loop that is not in the index.
struct PushState {
    /// Contents whose chunks are uploaded and whose commit is pending.
    var prepared: [ItemKey: PreparedContent] = [:]
    /// Files whose content is being uploaded.
    var uploading: Set<ItemKey> = []
    /// The wait after a failed commit while the feed works: the cloud may fail at once.
    var backoff = Backoff()
    /// When a group of folder times alone was last sent.
    var folderTimesSentAt: Timestamp?
    /// When each new file with a temporary name was first held back.
    var temporarySince: [ItemKey: Timestamp] = [:]
    /// When each package with unsent changes was first seen.
    var packagesSince: [ItemKey: Timestamp] = [:]
    /// Packages whose changes are uploaded file by file until none remains: they need several commits, or no decision
    /// was possible.
    var packagesInParts: Set<ItemKey> = []
    /// Packages whose local state lost and that still have local changes.
    var packagesGivenWay: [ItemKey: GivenWay] = [:]
    /// When the whole backlog was last searched for changes of packages, because no change before them could be sent.
    var packagesLookedAt: Timestamp?
    /// Files larger than a file at the cloud may be, with the generation in which that was found.
    var tooLarge: [ItemKey: Int64] = [:]
    /// How often no decision was possible about a package with two states.
    var undecided: [ItemKey: Int] = [:]
}

/// A package whose local state lost.
struct GivenWay {
    /// The revision of the cloud's state that won.
    var revision: Revision
    /// How often in a row.
    var count = 1
}

/// A group that is ready to be sent.
struct Outgoing {
    var group: [PlannedChange] = []
    var chunks: [Chunk] = []
    /// The packages of the group's changes. The cloud gets these changes together or not at all.
    var owners: Set<ItemKey> = []
    /// The edits of packages that the changes make.
    var packages: [PackageEdit] = []
    /// The decisions about some of these packages.
    var decided = DecidedPackages()
    /// Contents whose chunks are uploaded now, ahead of their changes.
    var ahead: [ItemKey: PreparedContent] = [:]

    init(of owners: Set<ItemKey>) { self.owners = owners }

    init(group: [PlannedChange], chunks: [Chunk]) {
        self.group = group
        self.chunks = chunks
    }
}
