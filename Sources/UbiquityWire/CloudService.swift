package import UbiquityCore

/// One container at a cloud, as a device sees it. Implemented by the HTTP client, by the cloud itself when it runs in
/// process, and by the simulator.
///
/// Every call throws `UbiquityError`: `.offline` or `.timedOut` if there was no answer (the call may or may not have
/// had its effect), `.signedOut`, `.tooManyRequests`, `.invalid` with the cloud's reason, and the errors that each call
/// names. A cancelled task's call throws `.cancelled` or `CancellationError`.
package protocol CloudService: Sendable {
    /// Creates the container if it is new, and returns its state.
    /// - Parameter point: the position up to which the device has read the feed. If this history lacks it, the cloud
    ///   was restored from an older backup, and the container gets another incarnation.
    func open(knowing point: FeedPoint?) async throws -> ContainerDescription

    /// One page of the items changed after a revision, in the order of their revisions. From revision zero the first
    /// page is the snapshot's.
    /// - Parameter limit: items wanted, 1 … `Limits.maximumItemsPerPage`. A page ends sooner when its items have
    ///   `Limits.maximumPageBytes`. It never ends inside a revision, so it can be longer by one commit's items.
    /// - Throws: `.feedCompacted` if deletions that old have been forgotten: then read the snapshot and drop items not
    ///   in it. `.invalid` if the point belongs to another history, because the cloud was restored from an older
    ///   backup. Reading changes nothing; `open(knowing:)` gives the container another incarnation.
    func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage

    /// Every existing item, read page by page from revision zero on. Unlike `changes`, it never throws
    /// `.feedCompacted`, because no caller relies on the deletions between its pages.
    func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage

    /// Applies the changes all together or not at all. A repeat with the same request id gives the first answer.
    /// - Throws: `.missingChunks` (see `MissingChunks`), `.outdatedCommit` (see `OutdatedCommit`), `.packageConflict`
    ///   (see `PackageConflict`), `.quotaExceeded`, `.invalid`, `.tooLarge` (send fewer changes at a time, or none to
    ///   this item until its conflicts are resolved), `.offline` if `request.known` belongs to another history: connect
    ///   anew.
    func commit(_ request: CommitRequest) async throws -> CommitResponse

    /// The chunks among these that the cloud lacks. At most `Limits.maximumChunksPerRequest` may be queried.
    func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID]

    /// The chunks among these that the cloud does not have intact: it reads and verifies each. A damaged chunk counts
    /// as missing from then on, until it is uploaded again. The others are durable. At most
    /// `Limits.maximumChunksToVerify`, each named once.
    func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID]

    /// Stores chunks, at most `Limits.maximumChunkBytesPerRequest` together. They are kept for at least a day without a
    /// commit that names them.
    /// - Throws: `.invalid` if a chunk does not match its id.
    func upload(_ chunks: [Chunk]) async throws

    /// Fetches chunks, at most `Limits.maximumChunksPerRequest` and `Limits.maximumChunkBytesPerRequest` together.
    /// Passes each to `receive` as soon as it arrives, in the requested order. The receiver must verify the content.
    /// - Throws: `.notFound` if the cloud has no such chunk, `.damaged` if the cloud's own copy is bad. Chunks before
    ///   the bad one have been passed on then.
    func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws

    /// The chunks of a version.
    /// - Throws: `.notUploadedYet` while only its metadata is known, `.notFound` if there is no such version.
    func manifest(of version: VersionID) async throws -> Manifest

    /// The versions of an item, deleted or not: the current one, the unresolved conflicts, then the others, newest
    /// first, at most `Limits.maximumVersionsPerAnswer`.
    /// - Throws: `.notFound` if there is no such item.
    func allVersions(of item: ItemID) async throws -> ItemVersions

    /// Deleted items, the most recent first.
    /// - Parameters:
    ///   - folder: lists the items deleted in this folder. Nil lists the items that were not deleted along with their
    ///     folder.
    ///   - position: begins after this one.
    ///   - limit: 1 … `Limits.maximumTrashPage`.
    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage

    /// The container's revision now and at each change, until the connection breaks (then it throws or ends). Only a
    /// hint: the feed is authoritative.
    func news() async throws -> AsyncThrowingStream<Revision, any Error>

    func usage() async throws -> CloudUsage
}

extension CloudService {
    /// For a device that has read nothing yet, or compares nothing.
    package func open() async throws -> ContainerDescription { try await open(knowing: nil) }

    /// For a cloud that never forgets a deletion.
    package func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await changes(after: point, limit: limit)
    }

    /// For a cloud whose chunks cannot be damaged.
    package func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID] { try await missingChunks(of: ids) }

    /// The versions that the cloud can read.
    package func versions(of item: ItemID) async throws -> [RemoteVersion] { try await allVersions(of: item).versions }

    /// For a cloud that keeps only the current versions.
    package func allVersions(of item: ItemID) async throws -> ItemVersions {
        throw UbiquityError(.notSupported, "this cloud does not keep versions")
    }

    package func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        throw UbiquityError(.notSupported, "this cloud does not keep deleted items")
    }
}

/// A chunk's content, with its claimed id.
package struct Chunk: Hashable, Sendable {
    package var id: ChunkID
    package var bytes: [UInt8]

    package init(id: ChunkID, bytes: [UInt8]) {
        self.id = id
        self.bytes = bytes
    }
}

package struct ContainerDescription: Hashable, Sendable {
    package var container: ContainerID
    package var account: String
    /// A number drawn when the cloud's data was created. A different one means another cloud, so a device must not take
    /// "no such item" for a deletion.
    package var incarnation: UInt64
    package var revision: Revision
    package var usage: CloudUsage
    /// The features that the cloud's data and its messages use.
    package var features: FormatFeatures

    package init(
        container: ContainerID, account: String, incarnation: UInt64, revision: Revision, usage: CloudUsage,
        features: FormatFeatures = FormatFeatures()
    ) {
        self.container = container
        self.account = account
        self.incarnation = incarnation
        self.revision = revision
        self.usage = usage
        self.features = features
    }
}

/// Bytes of an account: the usage of its documents, and its quota.
package struct CloudUsage: Hashable, Sendable {
    package var usedBytes: Int64
    package var quotaBytes: Int64

    package init(usedBytes: Int64, quotaBytes: Int64) {
        self.usedBytes = usedBytes
        self.quotaBytes = quotaBytes
    }
}

package struct ChangePage: Hashable, Sendable {
    package var items: [RemoteItem]
    /// The position after this page.
    package var revision: Revision
    /// Whether the feed continues.
    package var hasMore: Bool
    /// Whether items that the cloud cannot read were skipped: an absent item may still exist.
    package var isIncomplete: Bool
    /// The mark of the commit that made `revision`, or 0 if the cloud does not know it. See `FeedPoint`.
    package var mark: UInt64
    /// The items with links in force, and how many each has, if that has changed since the last page. Nil if not.
    package var links: [ItemID: Int]?

    package init(
        items: [RemoteItem], revision: Revision, hasMore: Bool, isIncomplete: Bool = false, mark: UInt64 = 0
    ) {
        self.items = items
        self.revision = revision
        self.hasMore = hasMore
        self.isIncomplete = isIncomplete
        self.mark = mark
    }
}

package struct CommitRequest: Hashable, Sendable {
    package var id: RequestID
    package var device: DeviceID
    package var deviceName: String
    /// 1 … `Limits.maximumChangesPerCommit`. They may refer to each other in any order. Names must be unique and
    /// parents must exist only when all are applied.
    package var changes: [ItemChange]
    /// Chunks of the changes that travel inside the commit, at most `Limits.maximumInlineChunkBytes`.
    package var chunks: [Chunk]
    /// When it was sent, by the device's clock. A difference beyond the delay is the error of that clock.
    package var sentAt: Timestamp?
    /// Greater than the number of every earlier commit of the device to this container. The cloud refuses a delayed
    /// commit with a smaller number, because its changes are outdated. Nil is not compared.
    package var number: Int64?
    /// The packages that the changes concern, at most `Limits.maximumPackagesPerCommit`.
    package var packages: [PackageEdit]
    /// The point up to which the device has read the feed. The cloud refuses a commit that is based on another history.
    package var known: FeedPoint?

    package init(
        id: RequestID, device: DeviceID, deviceName: String, changes: [ItemChange], chunks: [Chunk] = [],
        sentAt: Timestamp? = nil, number: Int64? = nil, packages: [PackageEdit] = [], known: FeedPoint? = nil
    ) {
        self.id = id
        self.device = device
        self.deviceName = deviceName
        self.changes = changes
        self.chunks = chunks
        self.sentAt = sentAt
        self.number = number
        self.packages = packages
        self.known = known
    }
}

extension CommitRequest {
    /// The manifests of all contents in the commit.
    package var manifests: [Manifest] {
        let contents = changes.compactMap { change in
            if case .put(let fields) = change.action { fields.content?.manifest } else { nil }
        }
        return contents + packages.compactMap { $0.lost?.manifest }
    }
}

/// A page of the trash.
package struct TrashPage: Hashable, Sendable {
    package var items: [TrashedItem]
    package var hasMore: Bool

    package init(items: [TrashedItem], hasMore: Bool) {
        self.items = items
        self.hasMore = hasMore
    }
}

package struct CommitResponse: Hashable, Sendable {
    /// The revision of this commit, or the container's unchanged one if the commit changed nothing.
    package var revision: Revision
    /// One result per change, in the order of the request.
    package var results: [ChangeResult]

    package init(revision: Revision, results: [ChangeResult]) {
        self.revision = revision
        self.results = results
    }
}

package struct ChangeResult: Hashable, Sendable {
    package enum Outcome: Hashable, Sendable {
        /// The cloud has decided. `item` has the result, in which a losing rename or content shows.
        case applied
        /// The item was merged into another (same name created on two devices). The sender's item takes that identity.
        case merged(into: ItemID)
        /// The cloud does not know, or has forgotten, the item or its parent. Send it again as a creation.
        case unknownItem
    }

    package var outcome: Outcome
    /// The item after the commit (of `merged`: the one merged into). Nil for `unknownItem`.
    package var item: RemoteItem?

    package init(outcome: Outcome, item: RemoteItem?) {
        self.outcome = outcome
        self.item = item
    }
}

/// The error of a commit that names chunks the cloud lacks. Its code is `.missingChunks`.
package struct MissingChunks: Error, Hashable, Sendable {
    package var ids: [ChunkID]
    package init(ids: [ChunkID]) { self.ids = ids }
}

/// The error of a commit whose number is not above that of the device's last commit. Its code is `.outdatedCommit`.
package struct OutdatedCommit: Error, Hashable, Sendable {
    /// The number of the last commit.
    package var last: Int64
    package init(last: Int64) { self.last = last }
}

/// The error of a commit about a package that another device has changed since the commit's base. Its code is
/// `.packageConflict`. Nothing was applied: the sender reads the feed and commits again, knowing both states.
package struct PackageConflict: Error, Hashable, Sendable {
    package var package: ItemID
    /// The commit in which the other device changed it last.
    package var revision: Revision
    /// Whether the sender's state wins: the later one by the cloud's clock.
    package var isYoursNewer: Bool
    /// When the other device changed it, by the cloud's clock.
    package var modifiedAt: Timestamp
    package var device: DeviceID
    /// Empty if the cloud does not know it.
    package var deviceName: String

    package init(
        package: ItemID, revision: Revision, isYoursNewer: Bool, modifiedAt: Timestamp, device: DeviceID,
        deviceName: String
    ) {
        self.package = package
        self.revision = revision
        self.isYoursNewer = isYoursNewer
        self.modifiedAt = modifiedAt
        self.device = device
        self.deviceName = deviceName
    }
}
