internal import Synchronization
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The queue of replays that wait, and the replay in progress.
///
/// The index's writer adds replays in commit order. One thread, which serves no requests, takes them. Lock order: a
/// leaf.
package final class Replays: Sendable {
    /// A name in a folder, as the kernel looks it up.
    struct Name: Hashable, Sendable {
        let parent: UInt64
        let name: ItemName
    }

    /// The answer the replay process gets for a name while its replay is in progress.
    enum Shown: Sendable {
        case nothing
        /// An item that exists.
        case item(ItemRow)
        /// An item that no longer exists.
        case departed(ItemRow)
        /// The hidden folder out of which replacements are moved.
        case wings
    }

    /// The replay in progress.
    struct Current: Sendable {
        let replay: Replay
        let call: ReplayCall
        let shown: [Name: Shown]
        /// Names that the replay process has looked up. A removal is applied only if its name was looked up: only then
        /// does the kernel surely have the right inode there.
        var asked: Set<Name> = []
        var isDone = false

        /// Whether the replay is a move of which only the arrival is replayed.
        var isArrival: Bool { if case .move = replay.action { call.kind == .replace } else { false } }
    }

    /// A move that could not be announced because the item had moved on by then. Watching programs still know the item
    /// by the name it had before.
    private struct Behind {
        let row: ItemRow
        var shown: ItemRow.Entry
        /// The name to which the move took the item; the next move starts here.
        var entry: ItemRow.Entry
    }

    private struct State {
        /// Whether a replay process serves the queue.
        var isOn = false
        var isClosed = false
        var pauses = 0
        var waiting: [Replay] = []
        var taken = 0
        /// Whether a replay is taken and not finished.
        var isBusy = false
        var current: Current?
        /// For each folder with waiting replays: the entries under which the kernel still has it.
        var departures: [ItemKey: [ItemRow.Entry]] = [:]
        /// The same by name, for folders that the index may no longer have there.
        var departing: [Name: ItemRow] = [:]
        /// How many replays were ever added, and how many of them are finished.
        var added: UInt64 = 0
        var ended: UInt64 = 0
        /// While one commit's changes are added, no replay is taken: the first change may concern an item that the last
        /// one moved.
        var isAdding = false
        /// Index in `waiting` of the first replay of the commit that is being added.
        var firstAdded = 0
        /// Folders whose creation waits or is in progress.
        var making: Set<ItemKey> = []
        /// How many replays of the current commit are in folders of `making`.
        var addedInNewFolders = 0
        /// Whether the commit removes an item after the folder that contained it.
        var isOutermostFirst = false
        /// Number of moves and removals that wait or are in progress, by item.
        var leaving: [ItemKey: Int] = [:]
        var behind: [ItemKey: Behind] = [:]
        var replaced: ItemRow?
        /// Whether the whole container leaves the mount: then items are removed for programs only.
        var isLeaving = false

        var count: Int { waiting.count - taken }
    }

    /// The queue length the kernel grants a watching program (fs.inotify.max_queued_events); it drops events beyond
    /// that.
    static let maximumWaiting = 16_384
    private static let compaction = 1024
    /// Limit for replays of one commit in folders that the same commit creates. It lets programs that watch a tree see
    /// small new folders. Programs that must know every file list a new folder anyway. Replaying millions of new files
    /// would take as long again as placing them.
    package static let maximumInNewFolders = 64

    private let state = Monitor(State())
    private let process = Atomic<Int32>(0)

    // MARK: The process that replays

    /// Whether the replay process makes the request. Requests of an abandoned process count too, as long as it lives.
    @inline(__always)
    func isOwn(_ caller: Int32) -> Bool {
        let own = process.load(ordering: .relaxed)
        return own != 0 && own == caller
    }

    /// - Parameter id: the process; 0 for none.
    func setProcess(_ id: Int32) { process.store(id, ordering: .sequentiallyConsistent) }

    /// Recognizes the replay process of the container that the mount served before.
    func adoptProcess(of former: Replays) { setProcess(former.process.load(ordering: .sequentiallyConsistent)) }

    /// From now on removals are replayed although the index keeps the items: the container leaves the mount.
    func beginLeaving() { state.withLock { $0.isLeaving = true } }
    var isLeaving: Bool { state.withLock { $0.isLeaving } }

    func turnOn() { state.withLock { $0.isOn = !$0.isClosed } }

    // MARK: Waiting

    /// Enqueues the replay of one change.
    /// - Returns: false if the change is not replayed.
    func add(_ event: IndexEvent) -> Bool { state.withLock { Self.add(event, &$0) } }

    /// Enqueues a new item of a folder that no program can watch yet, if that folder's creation is queued.
    /// - Returns: false if the item is not replayed.
    func addInNewFolder(_ event: IndexEvent) -> Bool {
        guard let parent = event.after?.entry?.parent else { return false }
        return state.withLock { state in
            guard state.making.contains(parent), state.addedInNewFolders < Self.maximumInNewFolders else {
                return false
            }
            state.addedInNewFolders += 1
            return Self.add(event, &state)
        }
    }

    private static func add(_ event: IndexEvent, _ state: inout State) -> Bool {
        guard state.isOn, state.count < maximumWaiting, let replay = Replay(event, replaced: state.replaced) else {
            return false
        }
        if case .replace(_, let old) = replay.action { state.replaced = old }
        if let (key, entry) = replay.departure {
            state.departures[key, default: []].append(entry)
            state.departing[Name(entry)] = replay.event.before
        }
        if let key = replay.madeFolder { state.making.insert(key) }
        if let key = replay.leavingKey { state.leaving[key, default: 0] += 1 }
        if case .remove(let entry, _) = replay.action, state.departures[entry.parent] != nil {
            state.isOutermostFirst = true
        }
        state.waiting.append(replay)
        state.added += 1
        return true
    }

    /// Runs `body`, which adds the changes of one commit.
    func adding(_ body: () -> Void) {
        state.withLock { state in
            state.isAdding = true
            state.addedInNewFolders = 0
            state.firstAdded = state.waiting.count
        }
        body()
        state.withLock { state in
            state.isAdding = false
            guard state.isOutermostFirst else { return }
            state.isOutermostFirst = false
            // Reorder this commit only: replays added before it finish before it (`isOver`).
            let added = state.firstAdded...
            state.waiting.replaceSubrange(added, with: Replay.innermostFirst(state.waiting[added]))
        }
        state.broadcast()
    }

    /// A mark of all replays added so far. `isOver` tells when they have finished.
    var mark: UInt64 { state.withLock { $0.added } }
    func isOver(_ mark: UInt64) -> Bool { state.withLock { $0.ended >= mark } }

    /// Waits for the next replay and takes it. Nil when the queue is closed.
    func next() -> Replay? {
        state.wait { state -> Replay?? in
            if state.isClosed { return .some(nil) }
            guard state.pauses == 0, !state.isAdding, state.count > 0 else { return nil }
            state.isBusy = true
            let replay = state.waiting[state.taken]
            state.taken += 1
            if state.taken == state.waiting.count || state.taken >= Self.compaction {
                state.waiting.removeFirst(state.taken)
                state.taken = 0
            }
            return replay
        }
    }

    /// The entry under which the kernel has a folder whose replays wait; nil if it agrees with the index.
    func entry(of folder: ItemKey) -> ItemRow.Entry? {
        state.withLock { state in
            let isLeaving = state.leaving[folder] != nil
            return (isLeaving ? state.behind[folder]?.shown : nil) ?? state.departures[folder]?.first
        }
    }

    /// Whether a move of the item has not been announced. Then its later changes must be replayed too.
    func isMoving(_ item: ItemKey) -> Bool { state.withLock { $0.leaving[item] != nil || $0.behind[item] != nil } }

    /// Forgets the unannounced move: the kernel has learned of the item in another way.
    func forgetBehind(_ item: ItemKey) { state.withLock { $0.behind[item] = nil } }

    /// Records a move that cannot be announced because the item has moved on.
    func addBehind(_ row: ItemRow, shown: ItemRow.Entry, entry: ItemRow.Entry) {
        state.withLock { state in
            // The records left over belong to items that moved to places without watchers.
            if state.behind.count >= Self.maximumWaiting { state.behind = [:] }
            state.behind[row.key] = Behind(row: row, shown: shown, entry: entry)
        }
    }

    /// The item that left the name without an announcement.
    func behind(at name: Name) -> ItemRow? {
        state.withLock { state in
            state.behind.first { state.leaving[$0.key] != nil && Name($0.value.shown) == name }?.value.row
        }
    }

    /// The folder that the kernel has at a name until its replay has finished.
    func departing(at name: Name) -> ItemRow? { state.withLock { $0.departing[name] } }

    /// The replay, with the origin changed to the name by which watching programs know the item.
    func fromShown(_ replay: Replay) -> Replay {
        guard let key = replay.row?.key else { return replay }
        return state.withLock { state in
            guard replay.origin != nil || replay.isMaking, let behind = state.behind.removeValue(forKey: key),
                behind.entry == replay.origin
            else { return replay }
            var replay = replay
            replay.origin = behind.shown
            return replay
        }
    }

    /// Finishes the taken replay.
    /// - Returns: whether the file system has answered the call itself.
    func finish(_ replay: Replay) -> Bool {
        let isDone = state.withLock { state -> Bool in
            defer {
                state.current = nil
                state.isBusy = false
                state.ended += 1
            }
            if let (key, _) = replay.departure, var entries = state.departures[key] {
                // As it was added: `fromShown` may have changed the replay's origin since.
                let name = Name(entries.removeFirst())
                state.departures[key] = entries.isEmpty ? nil : entries
                if state.departing[name]?.key == key { state.departing[name] = nil }
            }
            if let key = replay.madeFolder { state.making.remove(key) }
            if let key = replay.leavingKey, let count = state.leaving[key] {
                state.leaving[key] = count > 1 ? count - 1 : nil
            }
            return state.current?.isDone ?? false
        }
        state.broadcast()
        return isDone
    }

    /// Removes and returns all waiting replays.
    func removeAll() -> [Replay] {
        state.withLock { state in
            state.ended += UInt64(state.count)
            defer {
                state.waiting = []
                state.taken = 0
                state.firstAdded = 0
                state.departures = [:]
                state.departing = [:]
                state.making = []
                state.leaving = [:]
                state.behind = [:]
            }
            return Array(state.waiting[state.taken...])
        }
    }

    // MARK: Pausing and ending

    /// Whether at most `maximumInNewFolders` replays wait.
    var isShort: Bool { state.withLock { $0.count <= Self.maximumInNewFolders } }

    /// Waits before the next replay; returns early when the queue closes.
    func rest(for time: Duration) { _ = state.wait(atMost: time) { $0.isClosed ? true : nil } }

    /// Runs `body` while no replay runs, so that no process of this program uses the mount. Waits at most `limit` for
    /// the replay in progress.
    func paused<R, E: Error>(atMost limit: Duration, _ body: () throws(E) -> R) throws(E) -> R {
        state.withLock { $0.pauses += 1 }
        _ = state.wait(atMost: limit) { $0.isBusy ? nil : true }
        defer {
            state.withLock { $0.pauses -= 1 }
            state.broadcast()
        }
        return try body()
    }

    func close() {
        state.withLock {
            $0.isClosed = true
            $0.isOn = false
        }
        state.broadcast()
    }

    // MARK: The one under way

    func begin(_ current: Current) { state.withLock { $0.current = current } }
    var current: Current? { state.withLock { $0.current } }

    /// The answer for a name; nil if the index answers. Records that the name was looked up.
    func shown(_ name: Name) -> Shown? {
        state.withLock { state in
            guard let shown = state.current?.shown[name] else { return nil }
            state.current?.asked.insert(name)
            return shown
        }
    }

    func markDone() { state.withLock { $0.current?.isDone = true } }
}
