package import UbiquityCore

/// The sync settings of this device. They are local and never synced.
package struct SyncConfiguration: Sendable, Hashable {
    package enum Policy: String, Sendable, Hashable {
        /// Downloads a file when a program opens it.
        case lazy
        /// Downloads everything while free space stays above the floor.
        case eager
    }

    package var device: DeviceID
    package var deviceName: String
    package var policy: Policy
    /// Bytes of content to keep on this device. Above it the least recently used contents are evicted. Nil: no limit.
    package var cacheLimit: Int64?
    /// Bytes to keep free on the disk of the state folder (`DiskFloor`).
    package var diskFloor: Int64
    /// Whether any number of deletions is uploaded at once (`DeletionGuard`).
    package var allowsMassDelete = false
    /// Whether set-user-id and set-group-id bits are accepted from other devices (`Privileges`).
    package var trustsPrivileges = false
    /// Whether a folder's deletion also deletes items moved out of it, and is sent again if the cloud keeps the folder.
    /// False only in a simulator.
    package var completesDeletions = true
    /// Changes in one commit. Changes that depend on each other may exceed it. Smaller only in a simulator.
    package var changesPerCommit = SyncLimits.changesPerCommit
    /// How often records may be tried in one transaction. Less only in a simulator.
    package var settlingSteps = SyncLimits.settlingSteps
    /// Whether records that break `RecordRules` are ignored. False only in a simulator.
    package var checksRecords = true
    /// The folder of the versions that programs add (`AppVersions`). Nil keeps none.
    package var appVersions: String?
    /// The list of files whose sync is paused. Nil forgets them with the process.
    package var pausedItems: String?
    /// The id of this boot of the machine.
    package var boot: [UInt8]
    /// The owner of items from other devices.
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

/// The engine's limits and delays.
package enum SyncLimits {
    /// Files whose chunks failed to upload and whose backoff is remembered.
    static let rememberedBackoffs = 1000
    /// The longest time a change waits for another change that is sent separately. Longer than a package or a burst of
    /// deletions waits.
    static let patience = Duration.seconds(30)
    /// How often the engine asks for the usage of a full account.
    static let usageRest = Duration.seconds(5)
    /// In-progress contents tracked before finished ones are purged.
    static let madeContents = 1024
    /// Attempts to send chunks to an overloaded cloud, and the pause between them.
    static let attemptsAtABusyCloud = 30
    static let restForABusyCloud = Duration.seconds(1)
    /// When the backlog for a full account exceeds this many groups of changes, the push loop skips it on most rounds.
    static let windowsOfBacklog = 4
    /// While many groups of small changes are uploaded, large contents and decisions are begun this often.
    static let othersRest = Duration.seconds(1)
    /// They are begun no sooner than after this multiple of the time they last took.
    static let othersShare = 10
    /// How long a change waits before its upload, so that a program's burst of calls becomes one commit. Short, because
    /// another device must see a saved file within 100 ms.
    static let quiet = Duration.milliseconds(20)
    /// How long a new file waits after its close. A program that saves by renaming renames within that time. Shorter
    /// than `quiet`, so that a file written in one go does not wait for a second round.
    static let newFileRest = Duration.milliseconds(10)
    /// The same for a file whose name marks it as temporary (`ItemName.isMadeUp`, `possibleDocuments`).
    static let temporaryFileRest = Duration.seconds(1)
    /// A temporary file that keeps changing is uploaded after this time.
    static let temporaryFilePatience = Duration.seconds(10)
    /// How long the engine waits before it retries a content that a client has claimed for writing.
    static let claimedRest: Duration = .seconds(1)
    /// How long a package must be unchanged before its changes are uploaded. Programs save its files one by one.
    static let packageQuiet = Duration.milliseconds(400)
    /// A package that keeps changing is uploaded after this time.
    static let packagePatience = Duration.seconds(10)
    /// Attempts to decide about a package whose changes cannot all be sent, or which loses each time. They take some 20
    /// s.
    static let packageAttempts = 40
    /// How long an open of a file waits for the other files of its package that are being downloaded.
    static let packageWait = Duration.seconds(60)
    /// The longest time that a package's users are blocked if no decision about it follows.
    static let packageClaim = Duration.seconds(10)
    /// Dirty rows searched for changes of packages while other changes can be sent.
    static let packageScan = 50_000
    /// While nothing can be sent, all dirty rows are searched for changes of packages this often.
    static let packagesRest = Duration.seconds(2)
    /// Renamed items followed in a chain where each wants the next one's name, to find its end or a cycle.
    static let longestChain = 100_000
    /// How often an upload asks again which of its sent chunks the cloud has. The cloud keeps unreferenced chunks for a
    /// day.
    static let chunksAskedAgain = Duration.seconds(6 * 3600)
    /// Snapshots read in a row because the feed does not reach back to the last one.
    static let snapshotsInARow = 2
    /// Files remembered as too large.
    static let rememberedTooLarge = 1000
    /// Changes in one commit: large enough to amortise its fsync, small enough to apply in some 20 ms.
    static let changesPerCommit = 1000
    /// Items moved out of deleted folders that need each other's names are added recursively, at most this deep. Each
    /// level uses stack of the thread.
    static let deepestMove = 32
    /// A commit of this many changes belongs to a stream that a program makes (`cp -r`, `tar`). The next commit then
    /// waits `streamRest`, since each commit costs the cloud a disk write and each device a turn of the feed. A
    /// person's saves are fewer and do not wait. A full commit has a backlog behind it and does not wait either.
    static let stream = 8..<changesPerCommit
    static let streamRest = Duration.milliseconds(100)
    /// Changes of folder times alone are sent at most this often (`holdFolderTimes`).
    static let folderTimesRest = Duration.milliseconds(500)
    /// Files up to this size travel inside the commit. They are always one chunk.
    static let inlineContentSize = Int64(Limits.minimumChunkLength)
    /// Documents of one name, numbered by the cloud, with which a new one is compared before it is announced.
    static let comparedNames = 16
    /// Rows changed in one commit of the index. Other writers run in between.
    static let rowsPerWrite = 256
    /// Dirty rows read at a time.
    package static let rowsPerRead = 1000
    /// Large files uploaded at once. Reading the second overlaps with sending the first.
    static let concurrentUploads = 2
    /// Bytes of chunks in one upload request, and requests in flight per file.
    static let uploadBatchBytes = 4 << 20
    static let uploadsInFlight = 3
    /// How long the uploader waits before it reads a file again that changed during the read.
    static let rescanDelay = Duration.milliseconds(500)
    /// Items per page of the feed: while following, and for the first listing.
    static let followingPage = 500
    package static let listingPage = Limits.maximumItemsPerPage
    /// The feed is read this often even without news.
    static let pollInterval = Duration.seconds(30)
    /// How long a listing of versions waits for the cloud.
    static let versionsLimit = Duration.seconds(3)
    /// How long a program waits for a request that fails repeatedly: as long as for one answer.
    static let networkLimit = Duration.seconds(15)
    /// The longest pause between two attempts of such a request. Some 16 attempts fit into the limit.
    static let longestPatientPause = Duration.seconds(1)
    /// Attempts of a program's request whose answer arrives damaged.
    static let damagedAttempts = 6
    /// Background downloads at once.
    static let concurrentDownloads = 16
    /// Downloaded contents that may wait for a client to release its claim on the file.
    static let waitingReplacements = 256
    /// The largest file fetched ahead of its open (see `ReadingOrder`), which is one chunk, and the bytes fetched ahead
    /// at a time.
    static let aheadFileSize = Int64(Limits.maximumChunkLength)
    static let aheadBytes: Int64 = 8 << 20
    /// Requests in flight per download.
    static let fetchesInFlight = 2
    /// Bytes in the first request for a reader, and in each following one.
    static let firstFetchBytes = 256 << 10
    static let followingFetchBytes = 4 << 20
    /// Bytes of a download for which space is freed at a time.
    static let spaceAhead: Int64 = 64 << 20
    /// The first and the last wait of a reader whose bytes do not fit on the disk. The wait doubles each time, some 3 s
    /// in all. A file that a program has just closed stays in use for a moment before it can be evicted.
    static let firstWaitForSpace = Duration.milliseconds(50)
    static let lastWaitForSpace = Duration.milliseconds(1600)
    /// Unplaced records tried in one transaction.
    static let settleBatch = 1000
    /// How often records may be tried in one transaction. The largest container needs a tenth of it.
    package static let settlingSteps = 20_000_000
    /// Items examined below a deleted folder whose name another item wants.
    static let abandonedItems = 1000
    /// Content numbers probed for leftover files, in the order in which a run assigns them.
    static let probedNumbers: Int64 = 256
    /// How often contents are synced to the disk, the log is checkpointed, and contents are evicted.
    static let maintenanceInterval = Duration.seconds(5)
    /// Pages of files examined in one round of eviction, each of `rowsPerRead`. The next round continues there.
    static let pagesOfEviction = 32
    /// Contents synced to the disk in one round of maintenance.
    static let syncsPerRound = 2000
    /// Pending uploads, and wanted downloads, whose reasons to wait are examined for the log at a time.
    static let examinedWaits = 100
    /// Lines about waiting items in the log per minute.
    static let waitLines = 20
    /// An item committed this often within `burstWindow` is throttled. Each further commit waits `throttleStep` longer,
    /// at most `longestThrottle`.
    static let burst = 10
    static let burstWindow = Duration.seconds(20)
    /// The weight of a commit that follows another device's change. Two programs that change a file in turns never
    /// stop, since each reacts to the other.
    static let answerWeight = 3
    static let throttleStep = Duration.milliseconds(500)
    static let longestThrottle = Duration.seconds(30)
}
