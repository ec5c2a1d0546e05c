internal import UbiquityContent
internal import UbiquityCore
internal import UbiquitySystem

/// An empty backing file for a file that is about to be created.
struct NewContent: Sendable {
    let id: ContentID
    /// Open for reading and writing.
    let file: FileDescriptor
    /// The same file open for reading, and its registration with the kernel, if both were prepared.
    var reader: FileDescriptor?
    var backing: BackingID?
    /// Whether its name is on disk.
    var isNameSynced = false
}

/// Empty backing files, created before a program asks for one.
///
/// Creating the file, opening it a second time for the kernel and registering it take a fifth of the time of a program
/// that creates many files (measured). Another thread does that in advance, on another core. Two creates in quick
/// succession start it, so only such programs cause it.
///
/// None of the files is in the index. Files left over when the process dies are removed at the next start, like all
/// files without an item.
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
    /// Files created in one go, with one sync of their folder if names are to be flushed. If more are left by then,
    /// that many.
    private static let group = 8
    /// In seconds. For this long after a program has synced a new file's name, the names of prepared files are synced
    /// in advance. A program that saves document after document would wait for that each time.
    private static let syncInterest: Double = 2
    /// In seconds. Creates further apart than this gain nothing from preparation.
    private static let quickSuccession: Double = 0.1

    private let state = Lock(State())
    private let pool: BlockingPool?
    private let capacity: Int

    /// - Parameter pool: where files are created; nil to prepare none.
    init(pool: BlockingPool?) {
        self.pool = pool
        capacity = min(Self.capacity, ProcessHost.openFileLimit / Self.descriptorShare)
    }

    /// This fraction of the process's descriptors may serve prepared contents; each needs two.
    private static let descriptorShare = 32

    /// Takes the next content; nil if none is ready.
    /// - Parameter source: creates more contents, on the pool.
    func next(now: Timestamp, from source: NewContents) -> NewContent? {
        guard let pool else { return nil }
        let (content, begins) = state.withLock { state -> (NewContent?, Bool) in
            let isQuick = now < state.lastTake.advanced(bySeconds: Self.quickSuccession)
            state.lastTake = now
            let content = state.contents.isEmpty ? nil : state.contents.removeFirst()
            let begins = isQuick && !state.isFilling && !state.hasEnded && state.contents.count <= capacity / 2
            if begins { state.isFilling = true }
            return (content, begins)
        }
        if begins { begin(pool, source) }
        return content
    }

    /// Starts filling on another core. A thread that serves at the lowest priority makes its core look free, so a
    /// thread that it wakes lands there. The server would then get no turn until all files are created (measured: 2
    /// ms).
    private func begin(_ pool: BlockingPool, _ source: NewContents) {
        let core = CoreBinding.current
        let isStarted = pool.start { [self] in
            if let core { CoreBinding.avoid(core) }
            fill(source)
        }
        if !isStarted { state.withLock { $0.isFilling = false } }
    }

    /// Records that a program has synced the name of a new file.
    func observeSync(now: Timestamp) { state.withLock { $0.lastSync = now } }

    private func fill(_ source: NewContents) {
        while let count = state.withLock({ wanted(&$0) }) {
            var contents: [NewContent] = []
            // Ignore a full disk or too many open files here: the program that creates a file gets the error.
            while contents.count < count, let content = try? source.prepareContent() { contents.append(content) }
            let isShort = contents.count < count
            if isSyncWanted(now: source.context.parts.timekeeper.now()) { source.syncNames(of: &contents) }
            let isLate = state.withLock { [contents] state in
                if isShort { state.isFilling = false }
                if !state.hasEnded { state.contents += contents }
                return state.hasEnded
            }
            if isLate { contents.forEach(source.drop) }
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

    /// Ends the preparation.
    /// - Returns: the contents that are left.
    func end() -> [NewContent] {
        state.withLock { state in
            state.hasEnded = true
            defer { state.contents = [] }
            return state.contents
        }
    }
}
