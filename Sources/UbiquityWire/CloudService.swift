package import UbiquityCore

/// One container at a cloud, as a device sees it. Answered by the HTTP client, by the cloud itself when it runs in
/// process, and by the simulator.
///
/// Every call throws `UbiquityError`: `.offline` or `.timedOut` if there was no answer (the call may or may not have
/// had its effect), `.signedOut`, `.tooManyRequests`, `.invalid` with the cloud's reason, and what each call names.
/// A cancelled task's call throws `.cancelled` or `CancellationError`.
package protocol CloudService: Sendable {
    /// Makes the container if it is new and says where it stands.
    /// - Parameter point: Up to where the device has read the feed. If this history lacks that, an older copy of the
    ///   cloud's data was put back: the container gets another incarnation.
    func open(knowing point: FeedPoint?) async throws -> ContainerDescription

    /// The items changed after a revision, in the order of their revisions, one page. `.feedCompacted` if deletions
    /// that old have been forgotten: then read the snapshot and drop what is not in it.
    ///
    /// From revision zero the first page is the snapshot's.
    ///
    /// `.invalid` if the point belongs to another history: an older copy of the cloud's data was put back. Reading
    /// changes nothing; `open(knowing:)` gives the container another incarnation.
    /// - Parameter limit: items wanted, 1 … `Limits.maximumItemsPerPage`. A page ends sooner when its items have
    ///   `Limits.maximumPageBytes`. It never ends inside a revision, so it can be longer by one commit's items.
    func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage

    /// Every item there is, read page by page from revision zero on; like `changes`, but pages go on however old their
    /// revisions are, because nobody relies on the deletions between them.
    func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage

    /// Applies the changes all together or not at all. A repeat with the same request id gives the first answer.
    /// `.missingChunks` (see `MissingChunks`), `.outdatedCommit` (see `OutdatedCommit`), `.packageConflict` (see
    /// `PackageConflict`), `.quotaExceeded`, `.invalid`, `.tooLarge` (fewer changes at a time, or none to this item
    /// until its conflicts are decided), `.offline` if `request.known` belongs to another history: connect anew.
    func commit(_ request: CommitRequest) async throws -> CommitResponse

    /// Which of these chunks the cloud lacks; at most `Limits.maximumChunksPerRequest` are asked for.
    func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID]

    /// Those of these chunks that the cloud does not have as they should be: it reads each and verifies it. What it
    /// finds damaged counts as missing from then on, until it is sent anew; the others are durable. At most
    /// `Limits.maximumChunksToVerify`, each named once.
    func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID]

    /// Stores chunks, at most `Limits.maximumChunkBytesPerRequest` together. `.invalid` if one is not what its id says.
    /// They are kept for at least a day without a commit that names them.
    func upload(_ chunks: [Chunk]) async throws

    /// Fetches chunks, at most `Limits.maximumChunksPerRequest` and `Limits.maximumChunkBytesPerRequest` together,
    /// and hands each to `receive` as soon as it is here, in the order asked for. Content is not verified by this call:
    /// the receiver does that. `.notFound` if the cloud has no such chunk, `.damaged` if the cloud's own copy is bad;
    /// chunks before the bad one have been handed over then.
    func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws

    /// The chunks of a version. `.notUploadedYet` while only its metadata is known, `.notFound` if there is none.
    func manifest(of version: VersionID) async throws -> Manifest

    /// The versions of an item, deleted or not: the current one, the unresolved conflicts, then the others from the
    /// newest back, at most `Limits.maximumVersionsPerAnswer`. `.notFound` if there is no such item.
    func allVersions(of item: ItemID) async throws -> ItemVersions

    /// Deleted items, from the one deleted last back.
    /// - Parameters:
    ///   - folder: lists what was deleted in this folder; nil lists what was deleted by itself, not along with the
    ///     folder it was in.
    ///   - position: begins after this one.
    ///   - limit: 1 … `Limits.maximumTrashPage`.
    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage

    /// The container's revision now and whenever it changes, until the connection breaks (then it throws or ends).
    /// A hint only: the feed is the truth.
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

    /// Those that the cloud can read.
    package func versions(of item: ItemID) async throws -> [RemoteVersion] { try await allVersions(of: item).versions }

    /// For a cloud that keeps nothing but the current versions.
    package func allVersions(of item: ItemID) async throws -> ItemVersions {
        throw UbiquityError(.notSupported, "this cloud tells nothing of versions")
    }

    package func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        throw UbiquityError(.notSupported, "this cloud tells nothing of deleted items")
    }
}

/// A chunk's content, with the id it is said to have.
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
    /// A number drawn when the cloud's data was made. Another one means: this is not the cloud it was, so a device
    /// must not take "no such item" for a deletion.
    package var incarnation: UInt64
    package var revision: Revision
    package var usage: CloudUsage

    package init(
        container: ContainerID, account: String, incarnation: UInt64, revision: Revision, usage: CloudUsage
    ) {
        self.container = container
        self.account = account
        self.incarnation = incarnation
        self.revision = revision
        self.usage = usage
    }
}

/// Bytes of an account: what its documents take and what it may take.
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
    /// Whether the feed goes on.
    package var hasMore: Bool
    /// Whether items were passed over that the cloud cannot read: what is not here may be there all the same.
    package var isIncomplete: Bool
    /// The mark of the commit that made `revision`; 0 if the cloud does not know it. See `FeedPoint`.
    package var mark: UInt64

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
    /// 1 … `Limits.maximumChangesPerCommit`. They may refer to each other in any order; names need only be unique and
    /// parents need only exist when all are applied.
    package var changes: [ItemChange]
    /// Chunks that the changes name and that travel along, at most `Limits.maximumInlineChunkBytes`.
    package var chunks: [Chunk]
    /// When it was sent, by the device's clock: what is more than a delay is how far that clock is off.
    package var sentAt: Timestamp?
    /// Greater than that of every commit that the device sent to this container before. One that the network held up
    /// past a later one is refused by it: what it says is no longer so. Nil is not compared.
    package var number: Int64?
    /// The packages that the changes are about, at most `Limits.maximumPackagesPerCommit`.
    package var packages: [PackageEdit]
    /// The point up to which the device has read the feed. The cloud refuses a commit that rests on another history.
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
    /// Every content that the commit names the chunks of.
    package var manifests: [Manifest] {
        let contents = changes.compactMap { change in
            if case .put(let fields) = change.action { fields.content?.manifest } else { nil }
        }
        return contents + packages.compactMap { $0.lost?.manifest }
    }
}

/// A part of the trash.
package struct TrashPage: Hashable, Sendable {
    package var items: [TrashedItem]
    package var hasMore: Bool

    package init(items: [TrashedItem], hasMore: Bool) {
        self.items = items
        self.hasMore = hasMore
    }
}

package struct CommitResponse: Hashable, Sendable {
    /// The revision of this commit; the container's unchanged one if the commit changed nothing.
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
        /// Decided; `item` says with what result (a lost rename or content shows there).
        case applied
        /// The item is one with another now (same name created on two devices): the sender's item takes that identity.
        case merged(into: ItemID)
        /// The cloud knows nothing (any more) of an item that the change takes to exist, or of its parent: to be sent
        /// again as a creation.
        case unknownItem
    }

    package var outcome: Outcome
    /// The item after the commit (of `merged`: the one merged into); nil for `unknownItem`.
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

/// The error of a commit that is not later than the last one the cloud took from the device. Its code is
/// `.outdatedCommit`.
package struct OutdatedCommit: Error, Hashable, Sendable {
    /// The number of that one.
    package var last: Int64
    package init(last: Int64) { self.last = last }
}

/// The error of a commit about a package that another device has changed since the commit's base. Its code is
/// `.packageConflict`. Nothing was applied: who sent it reads the feed and commits again, knowing both states.
package struct PackageConflict: Error, Hashable, Sendable {
    package var package: ItemID
    /// The commit in which the other device changed it last.
    package var revision: Revision
    /// Which of the two states is to stand: the later one by the cloud's clock.
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
