internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

/// What the push loop knows beyond the index.
struct PushState {
    /// Contents whose chunks are at the cloud, waiting for their commit.
    var prepared: [ItemKey: PreparedContent] = [:]
    /// Files whose content is on its way up.
    var uploading: Set<ItemKey> = []
    /// How long the loop waits when its commits fail though the feed is read: that answers at once.
    var backoff = Backoff()
    /// The same for each file whose chunks did not get through.
    var uploadBackoffs: [ItemKey: Backoff] = [:]
    /// A file that changed while it was read rests until then.
    var rescanAt: [ItemKey: Timestamp] = [:]
    /// When the first of the new files that were not finished at the last look is, or folders' times that are held go.
    var finishedAt: Timestamp?
    /// When a group of nothing but folders' times was last sent.
    var folderTimesSentAt: Timestamp?
    /// Since when new files of temporary names have been held back.
    var temporarySince: [ItemKey: Timestamp] = [:]
    /// Since when packages have had changes that have not gone up.
    var packagesSince: [ItemKey: Timestamp] = [:]
    /// Packages of which another state is to be decided about, and who uses them.
    var packageClaims: [ItemKey: PackageClaim] = [:]
    /// Packages whose changes go up file by file, until none is left: they need several commits, or nothing could be
    /// decided.
    var packagesInParts: Set<ItemKey> = []
    /// Packages whose state here gave way and that have changes all the same.
    var packagesGivenWay: [ItemKey: GivenWay] = [:]
    /// When all that waits was last looked through for changes of packages, as nothing before them could go.
    var packagesLookedAt: Timestamp?
    /// Files of which more cannot travel than of a file may, and the state of them that was read to find that.
    var tooLarge: [ItemKey: Int64] = [:]
    /// How often nothing could be decided about a package that met another state.
    var undecided: [ItemKey: Int] = [:]
    /// Items that the cloud does not know, and of whose end the feed may tell, which is read for that.
    var askedFeedAbout: Set<ItemID> = []
    /// The cloud has refused a change for want of room in the account.
    var isAccountFull = false
    /// Changes that wait for room, as far as they were looked at.
    var passedOver: PassedOver?
    /// When it was last asked what that holds, then.
    var usageAskedAt: Timestamp?
    /// Deletions that the cloud answered by keeping the item, and when they are sent again.
    var keptDeletions: [ItemKey: KeptDeletion] = [:]
    /// When a burst of deletions may be over.
    var deletionsWaitUntil: Timestamp?

    struct PassedOver {
        /// Those up to this place in the order of changes.
        var order: Int64
        /// Then they are looked at again.
        var until: Timestamp
        /// Bytes that the account took then.
        var room: Int64
    }
}

/// A deletion that is sent again.
struct KeptDeletion {
    var backoff = Backoff()
    var until: Timestamp
}

/// A package's state here gave way.
struct GivenWay {
    /// To the cloud's of then.
    var revision: Revision
    /// How often, one time after the other.
    var count = 1
}

/// A group that is ready to be sent.
struct Outgoing {
    var group: [PlannedChange] = []
    var chunks: [Chunk] = []
    /// The packages that all changes of the group are of; the cloud gets them together or not at all.
    var owners: Set<ItemKey> = []
    /// What the changes are about, if that is packages.
    var packages: [PackageEdit] = []
    /// What has been decided about some of these.
    var decided = DecidedPackages()
    /// Contents whose chunks go up now and whose changes do not yet.
    var ahead: [ItemKey: PreparedContent] = [:]

    init(of owners: Set<ItemKey>) { self.owners = owners }

    init(group: [PlannedChange], chunks: [Chunk]) {
        self.group = group
        self.chunks = chunks
    }
}
