package import UbiquityCore

/// What a device's owner decides about its sync; local, never synced.
package struct SyncConfiguration: Sendable, Hashable {
    package enum Policy: String, Sendable, Hashable {
        /// Download on open.
        case lazy
        /// Download everything while free space stays above the floor.
        case eager
    }

    package var device: DeviceID
    package var deviceName: String
    package var policy: Policy
    /// Bytes of content kept here; the least recently used are evicted beyond. Nil: no limit.
    package var cacheLimit: Int64?
    /// Bytes that stay free on the disk of the state folder (`DiskFloor`).
    package var diskFloor: Int64
    /// Whether any number of deletions goes up at once (`DeletionGuard`).
    package var allowsMassDelete = false
    /// Whether set-user-id and set-group-id bits come from other devices (`Privileges`).
    package var trustsPrivileges = false
    /// Whether a folder's deletion takes along what was moved out of it, and is sent again if the cloud keeps the
    /// folder. False only in a simulator.
    package var completesDeletions = true
    /// Changes in one commit. Changes that others depend on may exceed it. Smaller only in a simulator.
    package var changesPerCommit = SyncLimits.changesPerCommit
    /// This boot of the machine.
    package var boot: [UInt8]
    /// Owner of what comes from other devices.
    package var owner: (uid: UInt32, gid: UInt32) {
        get { (ownerUID, ownerGID) }
        set { (ownerUID, ownerGID) = newValue }
    }
    private var ownerUID: UInt32
    private var ownerGID: UInt32

    package init(
        device: DeviceID, deviceName: String, policy: Policy = .lazy, cacheLimit: Int64? = nil,
        diskFloor: Int64 = 256 << 20, boot: [UInt8], owner: (uid: UInt32, gid: UInt32)
    ) {
        self.device = device
        self.deviceName = deviceName
        self.policy = policy
        self.cacheLimit = cacheLimit
        self.diskFloor = diskFloor
        self.boot = boot
        (ownerUID, ownerGID) = owner
    }
}

/// The engine's bounds and delays.
enum SyncLimits {
    /// Files are remembered whose chunks did not get through, at most so many.
    static let rememberedBackoffs = 1000
    /// So long a change waits for one that goes by itself: longer than packages rest and bursts of deletions last.
    static let patience = Duration.seconds(30)
    /// How often it is asked what a full account holds.
    static let usageRest = Duration.seconds(5)
    /// So many contents that are being made are remembered before those are looked for that have been.
    static let madeContents = 1024
    /// How often chunks are sent to a cloud that has too much to do with others, and how long it has rest between.
    static let attemptsAtABusyCloud = 30
    static let restForABusyCloud = Duration.seconds(1)
    /// When so many groups' worth of changes wait for room in a full account, they are not looked at each time.
    static let windowsOfBacklog = 4
    /// While small changes go up one group after the other, large contents and decisions are begun this often.
    static let othersRest = Duration.seconds(1)
    /// And not sooner than after so many times what that took.
    static let othersShare = 10
    /// How long a change rests before it goes up, so that a program's burst of calls is one commit. Short: a saved file
    /// is to be seen elsewhere within 100 ms.
    static let quiet = Duration.milliseconds(20)
    /// How long a new file rests after it was closed: programs that save by renaming do so within that. Shorter than
    /// `quiet`, so that a file written in one go is not kept for a second round.
    static let newFileRest = Duration.milliseconds(10)
    /// The same for one that by its name is a temporary one (`ItemName.isMadeUp`, `possibleDocuments`).
    static let temporaryFileRest = Duration.seconds(1)
    /// One that never comes to rest goes up after this all the same.
    static let temporaryFilePatience = Duration.seconds(10)
    /// Content that a client has claimed for writing is looked at again after that time.
    static let claimedRest: Duration = .seconds(1)
    /// How long nothing in a package has changed before its changes go up; programs save one file by file.
    static let packageQuiet = Duration.milliseconds(400)
    /// A package that never comes to rest goes up after this all the same.
    static let packagePatience = Duration.seconds(10)
    /// How often it is tried to decide about a package of whose changes not all can go, or which gives way each time:
    /// some 20 s.
    static let packageAttempts = 40
    /// How long an open of a file waits for the other files of its package that are on their way.
    static let packageWait = Duration.seconds(60)
    /// Those who use a package are held off for so long at most if it is not decided about after all.
    static let packageClaim = Duration.seconds(10)
    /// Dirty rows looked through for the changes of packages, while others can go.
    static let packageScan = 50_000
    /// While nothing can go all dirty rows are looked through for those of packages, this often.
    static let packagesRest = Duration.seconds(2)
    /// Renamed items that are followed from one that has another's name to that, to find the end, or that there is
    /// none.
    static let longestChain = 100_000
    /// An upload asks so often what the cloud has of what it has sent: chunks that no file has are kept for a day
    /// there.
    static let chunksAskedAgain = Duration.seconds(6 * 3600)
    /// Snapshots that are read one after the other because the feed does not reach back to the last one.
    static let snapshotsInARow = 2
    /// Files that are remembered to be too large.
    static let rememberedTooLarge = 1000
    /// Changes in one commit: large enough to amortise its fsync, small enough to apply in some 20 ms.
    static let changesPerCommit = 1000
    /// Items that were moved out of deleted folders and need each other's names are added within each other, so many at
    /// most: each takes a part of the thread's stack.
    static let deepestMove = 32
    /// A commit of so many changes is one of many that a program makes one after the other (`cp -r`, `tar`): the next
    /// waits `streamRest`, since every commit costs the cloud a write to the disk and each device a turn of the feed.
    /// A person's saves are fewer and wait for nothing; a full commit has a backlog behind it.
    static let stream = 8..<changesPerCommit
    static let streamRest = Duration.milliseconds(100)
    /// Folders' times alone are sent this often at most (`holdFolderTimes`).
    static let folderTimesRest = Duration.milliseconds(500)
    /// Files up to this size travel inside the commit: one chunk always.
    static let inlineContentSize = Int64(Limits.minimumChunkLength)
    /// Documents of one name, numbered by the cloud, with which a new one is compared before it is announced.
    static let comparedNames = 16
    /// Rows changed in one commit of the index: others write between.
    static let rowsPerWrite = 256
    /// Dirty rows read at a time.
    static let rowsPerRead = 1000
    /// Large files going up at once: the second one's reading overlaps the first one's sending.
    static let concurrentUploads = 2
    /// Bytes of chunks in one upload request, and requests on their way at once per file.
    static let uploadBatchBytes = 4 << 20
    static let uploadsInFlight = 3
    /// A file that changed while it was read is read again after this.
    static let rescanDelay = Duration.milliseconds(500)
    /// Items per page of the feed: while following, and for the first listing.
    static let followingPage = 500
    static let listingPage = Limits.maximumItemsPerPage
    /// The feed is read this often even if no news came.
    static let pollInterval = Duration.seconds(30)
    /// How long a listing of versions waits for the cloud.
    static let versionsLimit = Duration.seconds(3)
    /// So long a program waits for a request that fails again and again: as long as for one answer.
    static let networkLimit = Duration.seconds(15)
    /// The longest pause between two attempts of such a request: some 16 of them fit into the limit.
    static let longestPatientPause = Duration.seconds(1)
    /// Attempts of a program's request whose answer arrives damaged.
    static let damagedAttempts = 6
    /// Background downloads at once.
    static let concurrentDownloads = 16
    /// Contents that have come at most, and wait for who has claimed the files.
    static let waitingReplacements = 256
    /// The largest file that is fetched before it is opened (see `ReadingOrder`), one chunk, and all that are fetched
    /// so at a time.
    static let aheadFileSize = Int64(Limits.maximumChunkLength)
    static let aheadBytes: Int64 = 8 << 20
    /// Requests on their way at once per download.
    static let fetchesInFlight = 2
    /// Bytes in the first request for a reader, and in the ones that follow.
    static let firstFetchBytes = 256 << 10
    static let followingFetchBytes = 4 << 20
    /// Bytes of a download for which room is made at a time.
    static let roomAhead: Int64 = 64 << 20
    /// A reader for whose bytes the disk has no room waits so long, then twice as long each time, some 3 s in all, for
    /// what may go: the file that a program has just closed is in use for a moment more.
    static let firstWaitForRoom = Duration.milliseconds(50)
    static let lastWaitForRoom = Duration.milliseconds(1600)
    /// Unsettled records tried in one transaction.
    static let settleBatch = 1000
    /// Items looked at below a deleted folder whose name another item wants.
    static let abandonedItems = 1000
    /// Sync of contents to the disk, checkpoints and eviction run this often.
    /// Numbers of contents that come next of which it is seen whether files have them. A run gives them in this order.
    static let probedNumbers: Int64 = 256
    static let maintenanceInterval = Duration.seconds(5)
    /// Pages of files looked through in one round of eviction, each of `rowsPerRead`: the next round goes on.
    static let pagesOfEviction = 32
    /// Contents synced in one round of maintenance.
    static let syncsPerRound = 2000
    /// An item that was committed this often within `burstWindow` is slowed down: it rests `throttleStep` more with
    /// each further commit, at most `longestThrottle`.
    static let burst = 10
    static let burstWindow = Duration.seconds(20)
    /// What a commit counts that follows another device's change: two programs that change a file in turns go on for
    /// ever, and what one of them changes the other one changes too.
    static let answerWeight = 3
    static let throttleStep = Duration.milliseconds(500)
    static let longestThrottle = Duration.seconds(30)
}
