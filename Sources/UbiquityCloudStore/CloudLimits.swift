/// The cloud's own bounds and times. Those that devices must know too stand in `Limits`.
package enum CloudLimits {
    /// Bytes an account may use if nothing else is said.
    package static let defaultQuotaBytes: Int64 = 5_000_000_000
    /// Containers in an account: a guard against a device that makes names without end.
    package static let maximumContainersPerAccount = 1000
    /// Accounts at a cloud that keeps its metadata in SQLite.
    package static let maximumAccounts = 10_000
    /// Bytes in the name of an account, and in the label of a token.
    package static let maximumAccountNameLength = 64
    /// Device tokens of an account.
    package static let maximumTokensPerAccount = 1000

    /// A chunk shorter than this stands in the database: a file of its own would take a block and two more syncs.
    package static let smallChunkLength = 16 * 1024
    /// Answers of commits that are kept for a repeat, per container.
    package static let keptCommits: Int64 = 10_000
    /// Conflict versions of one item that nobody has decided about. A commit that would add one more is refused: its
    /// content stays on its device, which says so, and comes once some are resolved.
    package static let conflictsPerItem = 100
    /// Questions to the database that one commit may need; a long answer counts as several. They take about 0.3 s, and
    /// all other commits wait. A device sends a refused commit again in parts.
    package static let workPerCommit = 50_000
    /// Items with numbered names ("report 2.txt") that a new one of that name is compared with.
    package static let comparedNames = 64
    /// Versions that are walked back over to find what both sides of a conflict were made from.
    static let ancestorSteps = 200
    /// Commits at one time, of all accounts and of one: an account that sends heavy ones keeps others waiting for two
    /// of them at most.
    static let commitsAtOnce = 4
    static let commitsOfAnAccount = 2
    /// Stamps of removed attributes kept with an item.
    package static let removedXattrStamps = 64

    /// How far a device's clock may seem to be off before its times are corrected, in seconds: a request may take that
    /// long.
    package static let clockTolerance = 120.0
    /// How long a chunk that no version names is kept after it was stored or asked for, in seconds.
    package static let unusedChunkAge = 24.0 * 3600
    /// "Asked for" is written down at most this often per chunk, in seconds; the cloud keeps an unused chunk that much
    /// longer than it promises.
    package static let askedAgainAfter = 3600.0
    /// Rows that are counted to tell how many there are: a page is to come within a second.
    package static let countedRows = 2_000_000
    /// Rows that one transaction of the maintenance touches: commits wait no longer than that takes.
    package static let maintenanceBatch = 500

    /// Bytes of the disk that chunks leave to the database: its log has up to 32 MiB. Of a small disk a smaller part.
    package static let databaseRoom: Int64 = 64 << 20
    package static let databaseShare: Int64 = 8

    /// Threads for SQLite and files. Uploads hash and write on them in parallel; SQLite writes are one at a time
    /// anyway.
    package static let storeThreads = 6
    /// Bytes that one step of a download reads before they are handed over.
    package static let fetchStepBytes = 1 << 20
    /// Chunks in such a step.
    package static let fetchStepChunks = 256
}
