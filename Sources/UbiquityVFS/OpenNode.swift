internal import UbiquityContent
internal import UbiquityCoordination
internal import UbiquityCore
package import UbiquitySystem

/// What all open handles of one inode share: the backing file, and what is known of writing.
///
/// Lock order: a node's `state` comes before the index's writer and before the leaves (`OpenNodeTable`, `InodeTable`,
/// `HandleTable`). It is held over an open, a truncation and the noting of what was written, never over a wait.
final class OpenNode: Sendable {
    let ino: UInt64
    let state = Lock(State())

    struct State {
        /// The whole content; nil while the handles read a partial one.
        var whole: Whole? {
            didSet {
                guard whole?.id != oldValue?.id else { return }
                isNameSynced = false
                isSynced = false
            }
        }
        /// Handles of the kernel. While a handle is being made it is not counted yet.
        var handles = 0
        /// Who serves the handles. The first one decides, and it holds until the last one is closed.
        var service = Service.undecided
        /// Handles that may write.
        var writers = 0
        /// Whether a program may have the backing file mapped for writing: past this process, and also after the close.
        var mayBeMapped = false {
            didSet { if mayBeMapped { mayHaveBeenMapped = true } }
        }
        /// Whether that was so since the index was told that nobody writes: then the file's times do not tell when it
        /// was written last.
        var mayHaveBeenMapped = false
        /// Whose doing it is what those write who have it open.
        var doer: Doer?
        /// Whether the index knows that a writer has it open.
        var isRecorded = false
        /// Whether something was written since the index was last told.
        var isTouched = false
        /// Whether the index was told of a change while a program may have been in the midst of a long write that the
        /// kernel served: such a call sets the file's times once, when it begins.
        var wasNotedBesideWriters = false
        /// Whether it is a new file that the index knows to be written and has been told nothing else of.
        var awaitsFirstNote = false
        /// Whether it is written to through handles or mappings of a mount that is dead.
        var isAdopted = false
        /// The backing file when the index was last told.
        var stamp: Stamp?
        /// The backing file when it was last looked at, if that was not yet told, and how often it was looked at since.
        var unrest: (stamp: Stamp, looks: Int)?
        /// What the kernel knows a new file's content as before the first handle.
        var registered: BackingID?
        /// Whether the backing file's name is known to be on the disk.
        var isNameSynced = false
        /// Whether a program has brought the content to the disk.
        var isSynced = false
        /// Whether a program has it open with O_SYNC or O_DSYNC: it writes to the disk itself, past all that is kept of
        /// the content elsewhere.
        var writesThrough = false
        /// Whether the mode may have a set-user-id or set-group-id bit, which a write clears.
        var hasPrivileges = false

        /// Whether the index is to be told of a change.
        /// - Parameter stamp: the backing file as it is.
        func isChanged(_ stamp: Stamp, stillOpen: Bool) -> Bool {
            isTouched || stamp != self.stamp || !stillOpen && wasNotedBesideWriters
        }

        /// When the backing file was written last, if its times tell.
        func writtenAt(_ status: FileStatus) -> Timestamp? { mayHaveBeenMapped ? nil : status.changedAt }

        /// Most programs sync a new file once and close it. The index on the disk says that it is being written, so
        /// that the next start looks at it in any case; the rest is noted with the close, or soon (`noteSoon`).
        mutating func leavesNoteToClose() -> Bool {
            defer { awaitsFirstNote = false }
            return awaitsFirstNote && isRecorded && writers > 0 && !mayBeMapped && !hasPrivileges
        }
    }

    struct Whole: Sendable {
        /// Open for reading, and for writing while there are writers.
        var file: FileDescriptor
        let id: ContentID
        var isWritable: Bool
        /// Open for reading only, where `file` is open for writing and that was needed.
        var reader: FileDescriptor?

        /// A descriptor that does not make this process one that writes to the file.
        mutating func readerOnly() throws(Errno) -> FileDescriptor {
            guard isWritable else { return file }
            if let reader { return reader }
            let fresh = try file.reopenedForReading()
            reader = fresh
            return fresh
        }

        /// Gives up writing.
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
        /// The kernel, with what it knows of which content.
        case kernel(BackingID, ContentID)

        var backing: BackingID? {
            if case .kernel(let id, _) = self { return id }
            return nil
        }
    }

    /// What tells a changed file from an unchanged one.
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

/// The inodes that are open, each with the number of its handles and of operations that act as one.
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

    /// The node, held until `release`. Waits while the inode must stay closed.
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

    /// Runs `body` while nobody has the inode open and nobody can open it; nil if somebody has. It may wait for the
    /// disk, and must not open anything.
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
    /// Where it reads from while the content is not wholly here.
    let partial: PartialSource?
    /// Of a handle that is to write and was opened before the content was here.
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
    /// The open was not to wait.
    case pending(PendingContent)

    /// Nil if that is not known yet.
    var contentID: ContentID? {
        switch self {
        case .content(let content): content.id
        case .pending(let beginning): beginning.id
        }
    }
}

/// The beginning of a download that the open did not wait for.
final class PendingContent: Sendable {
    private let beginning: Task<PartialContent, any Error>
    /// The content that the item had at the open; nil for a version.
    let id: ContentID?

    init(_ id: ContentID?, _ begin: @escaping @Sendable () async throws -> PartialContent) {
        self.id = id
        beginning = Task.detached { try await begin() }
    }

    /// Waits for it.
    var value: PartialContent { get async throws { try await beginning.value } }

    func cancel() { beginning.cancel() }
}

/// Bytes of a file that a read answers with. They are taken from the file when the answer is sent.
package struct FileData: Sendable {
    package let descriptor: FileDescriptor
    package let offset: Int64
    /// At most; less at the end of the file.
    package let length: Int
}
