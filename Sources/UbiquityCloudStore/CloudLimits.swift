/// Limits and times of the cloud. Those that devices must know too are in `Limits`.
package enum CloudLimits {
    /// Default quota of an account in bytes.
    package static let defaultQuotaBytes: Int64 = 5_000_000_000
    /// Largest quota of an account in bytes. An account stores at most a multiple of its quota.
    package static let largestQuotaBytes: Int64 = 1 << 60
    /// All that an account may store, in quotas: documents, earlier versions, the trash, uploads, names, attributes.
    package static let storedPerQuota: Int64 = 3
    /// The same in bytes for the smallest quotas: commits and names take some space without any content.
    package static let smallestCap: Int64 = 1 << 20
    /// Of that, bytes for commits that only delete items or decide about versions; of a small cap a smaller part.
    package static let reliefBytes: Int64 = 16 << 20
    package static let reliefShare: Int64 = 16
    /// Containers in an account: protects against a device that creates names without end.
    package static let maximumContainersPerAccount = 1000
    /// Accounts at a cloud that keeps its metadata in SQLite.
    package static let maximumAccounts = 10_000
    /// Valid tokens of an account.
    package static let maximumTokensPerAccount = 1000
    /// In seconds: how long a code of a sign-in is valid.
    package static let signInCodeAge = 600.0
    /// In seconds: a device asks for its token at most this often.
    package static let signInPollInterval = 2.0
    /// Letters of a code: 20 to the power of 8 are 34 bits.
    package static let signInCodeLength = 8
    /// Codes that wait for a confirmation, per account, per network address and in all.
    package static let pendingSignInsOfAnAccount = 20
    package static let pendingSignInsOfANetwork = 10
    package static let pendingSignIns = 1000
    /// Unknown codes that the users of an account may enter within the age of a code.
    package static let wrongSignInCodes = 10
    /// Bytes in the display name of a container.
    package static let maximumDisplayNameLength = 128
    /// Bytes in the name of a token.
    package static let maximumTokenNameLength = 64
    /// Containers that one token names.
    package static let maximumContainersPerToken = 100
    /// Revoked tokens of an account that are remembered. The devices of older ones get "the cloud does not know this
    /// token".
    package static let keptRevokedTokens = 1000
    /// Devices of an account that are listed. Those with the oldest contact are dropped.
    package static let maximumDevicesPerAccount = 1000
    /// In seconds: the contacts of a device and the uses of a token are recorded at most this often.
    package static let contactInterval = 300.0
    /// Contacts remembered in memory for that.
    static let recentContacts = 10_000

    /// Links in force of an account, and the files and folders that they have together.
    package static let maximumLinksPerAccount = 1000
    package static let maximumLinkedFilesPerAccount = 100_000
    /// Files and folders of one link.
    package static let maximumFilesPerLink = 20_000
    /// In seconds: how long a link lasts, if its maker says nothing, and at most.
    package static let linkLifetime = 7.0 * 86400
    package static let longestLinkLifetime = 366.0 * 86400
    /// Ended links of an account that are remembered. Visitors of older ones get "there is no such link".
    package static let keptEndedLinks = 1000
    /// Bytes of a link's password, and the rounds of its hash. One attempt takes about 0.1 s of a processor.
    package static let longestLinkPassword = 1024
    package static let linkPasswordRounds = 100_000

    /// Chunks shorter than this are stored in the database: a file would take a block and two more syncs.
    package static let smallChunkLength = 16 * 1024
    /// Answers to commits kept for a repeated request, per container.
    package static let keptCommits: Int64 = 10_000
    /// Undecided conflict versions of one item. A commit that would add another one is refused: its content stays on
    /// its device with an error, and is uploaded once some are resolved.
    package static let conflictsPerItem = 100
    /// Database queries that one commit may need; a long answer counts as several. They take about 0.3 s, while all
    /// other commits wait. A device sends a refused commit again in parts.
    package static let workPerCommit = 50_000
    /// Items with numbered names ("report 2.txt") that are compared with a new item of that name.
    package static let comparedNames = 64
    /// Versions walked back to find the common ancestor of a conflict.
    static let ancestorSteps = 200
    /// Concurrent commits, of all accounts and of one. So an account with heavy commits keeps others waiting for at
    /// most two of them.
    static let commitsAtOnce = 4
    static let commitsOfAnAccount = 2
    /// Stamps of removed attributes kept with an item.
    package static let removedXattrStamps = 64

    /// In seconds: a device's clock may seem off by this much before its times are corrected. A request may take that
    /// long.
    package static let clockTolerance = 120.0
    /// In seconds: how long a chunk that no version names is kept after it was stored or requested.
    package static let unusedChunkAge = 24.0 * 3600
    /// In seconds: how long a purged chunk that no version names is kept after a device last asked for it. A commit
    /// that relies on it is finished by then.
    package static let purgedChunkAge = 900.0
    /// In seconds: interval of the upkeep of trash, versions and chunks. It also runs at the start.
    package static let upkeepInterval = 6.0 * 3600
    /// In seconds: a chunk's request time is recorded at most this often. The cloud keeps an unused chunk that much
    /// longer than promised.
    package static let askedAgainAfter = 3600.0
    /// Documents of a container that a usage report lists. The others are one sum.
    package static let listedDocuments = 1000
    /// Limit for counting rows: a page must be ready within a second.
    package static let countedRows = 2_000_000
    /// Items of a folder that a web page sorts. A larger folder has the order of its index.
    package static let sortedItems = 50_000
    /// Items that one search of a web page looks at, about a second.
    package static let searchedItems = 1_000_000
    /// Rows that one transaction of the upkeep touches: commits wait no longer than that takes.
    package static let maintenanceBatch = 500

    /// Disk space in bytes that chunks leave to the database, whose log has up to 32 MiB. On a small disk it is this
    /// fraction of the disk.
    package static let databaseRoom: Int64 = 64 << 20
    package static let databaseShare: Int64 = 8

    /// Threads for SQLite and files. Uploads hash and write on them in parallel; SQLite writes one at a time anyway.
    package static let storeThreads = 6
    /// Bytes that one step of a download reads before they are sent.
    package static let fetchStepBytes = 1 << 20
    /// Chunks in such a step.
    package static let fetchStepChunks = 256
}
