internal import Synchronization
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The replays that wait, and the one that is under way.
///
/// Added to under the index's writer, in the order of the commits; taken by one thread, which serves no requests. Lock
/// order: a leaf.
package final class Replays: Sendable {
    /// A name as the kernel asks for it.
    struct Name: Hashable, Sendable {
        let parent: UInt64
        let name: ItemName
    }

    /// What the process that replays is told of a name while the replay is under way.
    enum Shown: Sendable {
        case nothing
        /// An item that is there.
        case item(ItemRow)
        /// One that is not there any more.
        case departed(ItemRow)
        /// The folder out of which replacements are moved.
        case wings
    }

    /// The replay that is under way.
    struct Current: Sendable {
        let replay: Replay
        let call: ReplayCall
        let shown: [Name: Shown]
        /// Names that were asked for. What is to be taken away must have been: only then it is sure that the kernel has
        /// the right inode there.
        var asked: Set<Name> = []
        var isDone = false

        /// Whether it is a move of which only the arrival is replayed.
        var isArrival: Bool { if case .move = replay.action { call.kind == .replace } else { false } }
    }

    /// A move that could not be told, as the item had gone on by then: those who watch know it by the name before.
    private struct Behind {
        let row: ItemRow
        var shown: ItemRow.Entry
        /// Where the move has put it: from there it goes on.
        var entry: ItemRow.Entry
    }

    private struct State {
        /// Whether there is somebody who replays.
        var isOn = false
        var isClosed = false
        var pauses = 0
        var waiting: [Replay] = []
        var taken = 0
        /// Whether one is taken and not finished.
        var isBusy = false
        var current: Current?
        /// For folders with replays that wait: where the kernel has them until then.
        var departures: [ItemKey: [ItemRow.Entry]] = [:]
        /// The same by the name, for folders that the index may have there no more.
        var departing: [Name: ItemRow] = [:]
        /// Replays that were ever added, and of these the ones that are over.
        var added: UInt64 = 0
        var ended: UInt64 = 0
        /// While the changes of one commit are added, none is taken: the first may be about what the last has moved.
        var isAdding = false
        /// Of those that wait, the first that is added so.
        var firstAdded = 0
        /// Folders whose making waits or is under way.
        var making: Set<ItemKey> = []
        /// Of this commit, in such folders.
        var addedInNewFolders = 0
        /// Whether something was added that is deleted after the folder that it was in.
        var isOutermostFirst = false
        /// Moves and removals that wait or are under way, by the item.
        var leaving: [ItemKey: Int] = [:]
        var behind: [ItemKey: Behind] = [:]
        var replaced: ItemRow?

        var count: Int { waiting.count - taken }
    }

    /// As many as the kernel keeps for a program that watches (fs.inotify.max_queued_events), which loses what is more.
    static let maximumWaiting = 16_384
    private static let compaction = 1024
    /// Of one commit, what is in folders that come with it: who watches a tree is told of small ones, while those who
    /// must know all list a folder that has come. To replay what comes by the million for the first time would take as
    /// long again.
    package static let maximumInNewFolders = 64

    private let state = Monitor(State())
    private let process = Atomic<Int32>(0)

    // MARK: The process that replays

    /// Whether a request is its. Requests of one that was given up are, too, as long as it lives.
    @inline(__always)
    func isOwn(_ caller: Int32) -> Bool {
        let own = process.load(ordering: .relaxed)
        return own != 0 && own == caller
    }

    /// - Parameter id: 0 for none.
    func setProcess(_ id: Int32) { process.store(id, ordering: .sequentiallyConsistent) }

    func turnOn() { state.withLock { $0.isOn = !$0.isClosed } }

    // MARK: Waiting

    /// - Returns: false if it is not to be replayed.
    func add(_ event: IndexEvent) -> Bool { state.withLock { Self.add(event, &$0) } }

    /// The same for what is new in a folder that nobody can watch yet, if that is being made.
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

    /// Adds the changes of one commit by `body`.
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
            // Of this commit only: what was added before is told of before (`isOver`).
            let added = state.firstAdded...
            state.waiting.replaceSubrange(added, with: Replay.innermostFirst(state.waiting[added]))
        }
        state.broadcast()
    }

    /// Told of by then: all that was added till now.
    var mark: UInt64 { state.withLock { $0.added } }
    func isOver(_ mark: UInt64) -> Bool { state.withLock { $0.ended >= mark } }

    /// The next one; waits for it. Nil when there will be none any more.
    func take() -> Replay? {
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

    /// Where the kernel has a folder whose replays wait; nil if that is where the index has it.
    func entry(of folder: ItemKey) -> ItemRow.Entry? {
        state.withLock { state in
            let isLeaving = state.leaving[folder] != nil
            return (isLeaving ? state.behind[folder]?.shown : nil) ?? state.departures[folder]?.first
        }
    }

    /// Whether a move of the item has not been told: then what comes after it has to be.
    func isMoving(_ item: ItemKey) -> Bool { state.withLock { $0.leaving[item] != nil || $0.behind[item] != nil } }

    /// The kernel has heard of the item otherwise.
    func forgetBehind(_ item: ItemKey) { state.withLock { $0.behind[item] = nil } }

    /// Takes note of a move that cannot be told, as the item has gone on.
    func noteBehind(_ row: ItemRow, shown: ItemRow.Entry, entry: ItemRow.Entry) {
        state.withLock { state in
            // Left over are those that went on to where nobody is told of it.
            if state.behind.count >= Self.maximumWaiting { state.behind = [:] }
            state.behind[row.key] = Behind(row: row, shown: shown, entry: entry)
        }
    }

    /// What has gone on from there, untold.
    func behind(at name: Name) -> ItemRow? {
        state.withLock { state in
            state.behind.first { state.leaving[$0.key] != nil && Name($0.value.shown) == name }?.value.row
        }
    }

    /// The folder that the kernel has at a name until its replay is over.
    func departing(at name: Name) -> ItemRow? { state.withLock { $0.departing[name] } }

    /// The taken one, from the name by which those who watch know its item.
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

    /// The taken one is over.
    /// - Returns: whether the file system has answered the call itself.
    func finish(_ replay: Replay) -> Bool {
        let isDone = state.withLock { state -> Bool in
            defer {
                state.current = nil
                state.isBusy = false
                state.ended += 1
            }
            if let (key, _) = replay.departure, var entries = state.departures[key] {
                // As it was added: the replay may have got another origin since (`fromShown`).
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

    /// Takes away all that wait.
    func takeAll() -> [Replay] {
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

    /// Whether no more wait than are told of in new folders.
    var isShort: Bool { state.withLock { $0.count <= Self.maximumInNewFolders } }

    /// Waits before the next one; not once there will be none any more.
    func rest(for time: Duration) { _ = state.wait(atMost: time) { $0.isClosed ? true : nil } }

    /// Runs `body` while nothing is replayed, so that nobody of ours uses the mount; waits at most `limit` for that.
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

    /// What is shown at a name; nil if that is what the index has. Noted.
    func shown(_ name: Name) -> Shown? {
        state.withLock { state in
            guard let shown = state.current?.shown[name] else { return nil }
            state.current?.asked.insert(name)
            return shown
        }
    }

    func noteDone() { state.withLock { $0.current?.isDone = true } }
}
