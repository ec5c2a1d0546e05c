internal import UbiquityContent
internal import UbiquityCore
internal import UbiquitySystem

/// An empty backing file for what is about to be made.
struct NewContent: Sendable {
    let id: ContentID
    /// Open for reading and writing.
    let file: FileDescriptor
    /// The same file open for reading, and what the kernel knows it as, where it is to serve it and that was seen to
    /// in advance.
    var reader: FileDescriptor?
    var backing: BackingID?
    /// Whether its name is on the disk.
    var isNameSynced = false
}

extension ContainerFileSystem {
    func newContent() throws -> NewContent {
        try preparedContents.take(now: parts.timekeeper.now(), from: self) ?? makeContent()
    }

    private func makeContent() throws -> NewContent {
        let id = try contentNumbers.take(from: index)
        return NewContent(id: id, file: try contents.create(id))
    }

    fileprivate func prepareContent() throws -> NewContent {
        var content = try makeContent()
        guard parts.passthrough.isActive, let reader = try? content.file.reopenedForReading() else { return content }
        content.reader = reader
        content.backing = parts.passthrough.register(reader)
        return content
    }

    /// A failure shows when a program syncs one of these.
    fileprivate func syncNames(of contents: inout [NewContent]) {
        guard (try? self.contents.syncNames(of: contents.map(\.id))) != nil else { return }
        for position in contents.indices { contents[position].isNameSynced = true }
    }

    /// It is not needed after all.
    func drop(_ content: NewContent) {
        if let backing = content.backing { parts.passthrough.unregister(backing) }
        drop(content.id)
    }

    /// Makes no more contents in advance, and retires those that were made. For the end of the mount.
    package func endPreparation() { preparedContents.end().forEach(drop) }
}

/// Empty backing files that were made before a program asks for one.
///
/// Making the file, opening it once more for the kernel and telling the kernel of it are a fifth of what a program that
/// makes many files waits for (measured); another thread does that beforehand, on another core. Only such programs have
/// it done: two creates in quick succession begin it.
///
/// None of them is in the index: those left over when the process dies are removed at the next start, as is what else
/// no item has.
final class PreparedContents: Sendable {
    private struct State {
        /// In the order of their numbers.
        var contents: [NewContent] = []
        var lastTake = Timestamp.zero
        var lastSync = Timestamp.zero
        var isFilling = false
        var hasEnded = false
    }

    /// Each takes two descriptors.
    static let capacity = 64
    /// Made in one go, with one sync of their folder if they are to have that; more if as many are left meanwhile.
    private static let group = 8
    /// So long after a program has brought a new file to the disk, the next ones' names are brought there in advance:
    /// it saves document after document, and would wait for that each time. Seconds.
    private static let syncInterest: Double = 2
    /// Creates that are further apart than this are not worth it: 100 ms.
    private static let quickSuccession: Double = 0.1

    private let state = Lock(State())
    private let pool: BlockingPool?
    private let capacity: Int

    /// - Parameter pool: where they are made; nil if none are to be.
    init(pool: BlockingPool?) {
        self.pool = pool
        capacity = min(Self.capacity, ProcessHost.openFileLimit / Self.descriptorShare)
    }

    /// Of the descriptors that this process may have, one in so many is for contents made in advance, and its second.
    private static let descriptorShare = 32

    /// The next one; nil if there is none just now.
    /// - Parameter fileSystem: makes others, on the pool.
    func take(now: Timestamp, from fileSystem: ContainerFileSystem) -> NewContent? {
        guard let pool else { return nil }
        let (content, begins) = state.withLock { state -> (NewContent?, Bool) in
            let isQuick = now < state.lastTake.advanced(bySeconds: Self.quickSuccession)
            state.lastTake = now
            let content = state.contents.isEmpty ? nil : state.contents.removeFirst()
            let begins = isQuick && !state.isFilling && !state.hasEnded && state.contents.count <= capacity / 2
            if begins { state.isFilling = true }
            return (content, begins)
        }
        if begins { begin(pool, fileSystem) }
        return content
    }

    /// A thread that wakes another one has it on its own core, if it serves at the lowest priority: that core seems to
    /// be free. The server would have no turn till all are made (measured: 2 ms).
    private func begin(_ pool: BlockingPool, _ fileSystem: ContainerFileSystem) {
        let core = CoreBinding.current
        let isStarted = pool.start { [self] in
            if let core { CoreBinding.avoid(core) }
            fill(fileSystem)
        }
        if !isStarted { state.withLock { $0.isFilling = false } }
    }

    /// A program has brought the name of a new file to the disk.
    func noteSync(now: Timestamp) { state.withLock { $0.lastSync = now } }

    private func fill(_ fileSystem: ContainerFileSystem) {
        while let count = state.withLock({ wanted(&$0) }) {
            var contents: [NewContent] = []
            // No room, or too many open files: the program that wants one is told.
            while contents.count < count, let content = try? fileSystem.prepareContent() { contents.append(content) }
            let isShort = contents.count < count
            if isSyncWanted(now: fileSystem.parts.timekeeper.now()) { fileSystem.syncNames(of: &contents) }
            let isLate = state.withLock { [contents] state in
                if isShort { state.isFilling = false }
                if !state.hasEnded { state.contents += contents }
                return state.hasEnded
            }
            if isLate { contents.forEach(fileSystem.drop) }
            if isShort { return }
        }
    }

    private func isSyncWanted(now: Timestamp) -> Bool {
        let last = state.withLock { $0.lastSync }
        return last <= now && now < last.advanced(bySeconds: Self.syncInterest)
    }

    private func wanted(_ state: inout State) -> Int? {
        guard !state.hasEnded, state.contents.count < capacity else {
            state.isFilling = false
            return nil
        }
        return min(max(Self.group, state.contents.count), capacity - state.contents.count)
    }

    /// No more are made.
    /// - Returns: those that are left.
    func end() -> [NewContent] {
        state.withLock { state in
            state.hasEnded = true
            defer { state.contents = [] }
            return state.contents
        }
    }
}
