internal import UbiquityContent
internal import UbiquityCoordination
internal import UbiquityCore
package import UbiquitySystem

/// State that all open handles of one inode share: the backing file and the record of writing.
///
/// Lock order: a node's `state` comes before the index's writer and before the leaves (`OpenNodeTable`, `InodeTable`,
/// `HandleTable`). The lock is held over an open, a truncation and the recording of writes, never over a wait.
final class OpenNode: Sendable {
    let ino: UInt64
    let state = Lock(State())

    struct State {
        /// The complete content; nil while the handles read a partial one.
        var whole: Whole? {
            didSet {
                guard whole?.id != oldValue?.id else { return }
                isNameSynced = false
                isSynced = false
            }
        }
        /// The kernel's open handles. A handle that is being created is not counted yet.
        var handles = 0
        /// Who serves reads and writes of the handles. The first handle decides; the choice holds until the last handle
        /// closes.
        var service = Service.undecided
        /// Number of handles that may write.
        var writers = 0
        /// Whether a program may have the backing file mapped for writing. Such writes bypass this process and can come
        /// after the close.
        var mayBeMapped = false {
            didSet { if mayBeMapped { mayHaveBeenMapped = true } }
        }
        /// Whether `mayBeMapped` was true since the index last recorded the end of writing. Then the file's times do
        /// not tell when it was last written.
        var mayHaveBeenMapped = false
        /// The author recorded for writes through the open handles.
        var doer: Doer?
        /// Whether the index has recorded that a writer has the file open.
        var isRecorded = false
        /// Whether a write happened since the index last recorded the file.
        var isTouched = false
        /// Whether the index recorded a change while a program may have been inside a long write that the kernel
        /// served. Such a call sets the file's times once, when it begins.
        var wasRecordedBesideWriters = false
        /// Whether the file is new and the index has recorded only that it is being written.
        var awaitsFirstRecord = false
        /// Whether programs write to the file through handles or mappings of a dead mount.
        var isAdopted = false
        /// The backing file's stamp when the index last recorded it.
        var stamp: Stamp?
        /// The backing file's stamp at the last look, if not yet recorded, and the number of looks since.
        var unrest: (stamp: Stamp, looks: Int)?
        /// The kernel's number for a new file's content, registered before the first handle.
        var registered: BackingID?
        /// Whether the backing file's name is known to be on disk.
        var isNameSynced = false
        /// Whether a program has flushed the content to disk.
        var isSynced = false
        /// Whether a program has the file open with O_SYNC or O_DSYNC. It writes straight to disk and bypasses copies
        /// of the content kept elsewhere, such as the journal.
        var writesThrough = false
        /// Whether the mode may have a set-user-id or set-group-id bit, which a write clears.
        var hasPrivileges = false

        /// Whether the index must record a change.
        /// - Parameter stamp: the backing file's present stamp.
        func isChanged(_ stamp: Stamp, stillOpen: Bool) -> Bool {
            isTouched || stamp != self.stamp || !stillOpen && wasRecordedBesideWriters
        }

        /// When the backing file was last written; nil if its times do not tell.
        func writtenAt(_ status: FileStatus) -> Timestamp? { mayHaveBeenMapped ? nil : status.changedAt }

        /// Whether the first sync of a new file needs no record of its own. Most programs sync a new file once and
        /// close it. The index on disk says that the file is being written, so the next start examines it in any case.
        /// The close or `DelayedCloses.recordSoon` records the rest.
        mutating func leavesRecordToClose() -> Bool {
            defer { awaitsFirstRecord = false }
            return awaitsFirstRecord && isRecorded && writers > 0 && !mayBeMapped && !hasPrivileges
        }
    }

    struct Whole: Sendable {
        /// Open for reading, and for writing while there are writers.
        var file: FileDescriptor
        let id: ContentID
        var isWritable: Bool
        /// A read-only descriptor beside a writable `file`, if one was needed.
        var reader: FileDescriptor?

        /// A descriptor that does not count this process as a writer of the file.
        mutating func readerOnly() throws(Errno) -> FileDescriptor {
            guard isWritable else { return file }
            if let reader { return reader }
            let fresh = try file.reopenedForReading()
            reader = fresh
            return fresh
        }

        /// Replaces the writable descriptor by a read-only one.
        mutating func becomeReader() throws(Errno) {
            guard isWritable else { return }
            file = try readerOnly()
            reader = nil
            isWritable = false
        }
    }

    enum Service {
        case undecided
        /// This process, through the kernel's page cache.
        case daemon
        /// The kernel (passthrough), with its backing number and the content behind it.
        case kernel(BackingID, ContentID)

        var backing: BackingID? {
            if case .kernel(let id, _) = self { return id }
            return nil
        }
    }

    /// Distinguishes a changed backing file from an unchanged one.
    struct Stamp: Equatable {
        let size: Int64
        let modifiedAt: Timestamp
        let changedAt: Timestamp

        init(_ status: FileStatus) {
            size = status.size
            modifiedAt = status.modifiedAt
            changedAt = status.changedAt
        }
    }

    init(ino: UInt64) { self.ino = ino }
}

/// The open inodes, each with the number of its handles and of operations that act as one.
final class OpenNodeTable: Sendable {
    private struct Entry {
        let node: OpenNode
        var uses = 0
    }
    private struct State {
        var entries: [UInt64: Entry] = [:]
        /// Inodes that must stay closed for the moment.
        var closed: Set<UInt64> = []
    }
    private let state = Monitor(State())

    /// Returns the node and counts one use until `release`. Waits while the inode must stay closed.
    func hold(_ ino: UInt64) -> OpenNode {
        state.wait { state in
            guard !state.closed.contains(ino) else { return nil }
            let entry = state.entries[ino] ?? Entry(node: OpenNode(ino: ino))
            state.entries[ino] = Entry(node: entry.node, uses: entry.uses + 1)
            return entry.node
        }
    }

    func release(_ node: OpenNode) {
        state.withLock { state in
            guard var entry = state.entries[node.ino] else { return }
            entry.uses -= 1
            state.entries[node.ino] = entry.uses > 0 ? entry : nil
        }
    }

    /// Runs `body` while the inode is closed and cannot be opened; nil if it is open. `body` may wait for the disk and
    /// must not open anything.
    func whileClosed<R>(_ ino: UInt64, _ body: () throws -> R) rethrows -> R? {
        let isClosed = state.withLock { $0.entries[ino] == nil && $0.closed.insert(ino).inserted }
        guard isClosed else { return nil }
        defer {
            state.withLock { _ = $0.closed.remove(ino) }
            state.broadcast()
        }
        return try body()
    }

    /// The node if the inode is open.
    func node(_ ino: UInt64) -> OpenNode? { state.withLock { $0.entries[ino]?.node } }

    var all: [OpenNode] { state.withLock { $0.entries.values.map(\.node) } }
    var useCount: Int { state.withLock { $0.entries.values.reduce(0) { $0 + $1.uses } } }
}

/// A handle of the kernel on a file.
final class OpenFile: Sendable {
    let node: OpenNode
    let flags: OpenFlags
    /// The download it reads from while the content is incomplete.
    let partial: PartialSource?
    /// For a writable handle that was opened before the content was complete.
    let late: LateWriter?

    init(node: OpenNode, flags: OpenFlags, partial: PartialSource?, late: LateWriter? = nil) {
        self.node = node
        self.flags = flags
        self.partial = partial
        self.late = late
    }
}

/// A handle's interest in a download.
enum PartialSource: Sendable {
    case content(PartialContent)
    /// The open did not wait for the download to begin.
    case pending(PendingContent)

    /// Nil if not known yet.
    var contentID: ContentID? {
        switch self {
        case .content(let content): content.id
        case .pending(let beginning): beginning.id
        }
    }
}

/// The start of a download that the open did not wait for.
final class PendingContent: Sendable {
    private let beginning: Task<PartialContent, any Error>
    /// The content that the item had at the open; nil for a version.
    let id: ContentID?

    init(_ id: ContentID?, _ begin: @escaping @Sendable () async throws -> PartialContent) {
        self.id = id
        beginning = Task.detached { try await begin() }
    }

    /// Waits for the download to begin.
    var value: PartialContent { get async throws { try await beginning.value } }

    func cancel() { beginning.cancel() }
}

/// A range of a file that answers a read. The bytes are taken from the file when the answer is sent.
package struct FileData: Sendable {
    package let descriptor: FileDescriptor
    package let offset: Int64
    /// Upper bound; the file may end earlier.
    package let length: Int
}
