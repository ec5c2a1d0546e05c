import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// The changes since a live query last took them.
struct QueryChanges: Sendable {
    /// Items to examine, by key.
    var items: [ItemKey: ItemID] = [:]
    /// Folders that moved, or whose package state changed: their contents have another path or are results no more.
    var movedFolders: Set<ItemKey> = []
    /// Folders with changed items. Their state and the state of the folders above them may have changed.
    var folders: Set<ItemKey> = []
    /// Whether there were more changes than are kept: everything must be examined.
    var hasLost = false

    var isEmpty: Bool { items.isEmpty && !hasLost }

    mutating func note(_ change: IndexEvent) {
        for row in [change.before, change.after].compactMap({ $0 }) where row.key != .root {
            noteState(of: row)
            if row.kind == .directory, change.before?.entry != change.after?.entry || change.isMarkChanged {
                movedFolders.insert(row.key)
            }
        }
    }

    mutating func noteState(of row: ItemRow) {
        items[row.key] = row.id
        if let parent = row.entry?.parent { folders.insert(parent) }
    }
}

extension IndexEvent {
    /// Whether the folder's package mark was set, changed or removed.
    fileprivate var isMarkChanged: Bool {
        func mark(_ row: ItemRow?) -> [UInt8]? { row?.xattrs.first { $0.name == PackageRules.mark }?.value }
        return mark(before) != mark(after)
    }
}

/// Collects the changes for one live query, until the query takes them. The number kept is bounded.
final class QueryWatcher: Sendable {
    /// Changed items kept; beyond that, the query gathers its results anew.
    static let maximumItems = 10_000

    enum Signal: Sendable {
        case changed
        case heartbeat
    }

    private let changes = Lock(QueryChanges())
    private let source: AsyncStream<Signal>.Continuation
    /// Signals that there is work; one signal stands for any number of changes.
    let signals: AsyncStream<Signal>

    init() { (signals, source) = AsyncStream.makeStream(of: Signal.self, bufferingPolicy: .bufferingNewest(1)) }

    /// Runs on the committing thread: it only records.
    func note(_ events: [IndexEvent]) {
        note { changes in for event in events { changes.note(event) } }
    }

    /// Records items whose transfers have progressed.
    func note(_ rows: [ItemRow]) {
        note { changes in for row in rows { changes.noteState(of: row) } }
    }

    private func note(_ body: (inout QueryChanges) -> Void) {
        changes.withLock { changes in
            guard !changes.hasLost else { return }
            body(&changes)
            if changes.items.count > Self.maximumItems {
                changes = QueryChanges()
                changes.hasLost = true
            }
        }
        source.yield(.changed)
    }

    func take() -> QueryChanges {
        changes.withLock { changes in
            defer { changes = QueryChanges() }
            return changes
        }
    }

    /// Sends a heartbeat. The signal buffer holds one, so a waiting change is signalled again.
    func beat() { source.yield(changes.withLock { $0.isEmpty } ? .heartbeat : .changed) }

    func close() { source.finish() }
}

/// A live query's registration at its mount. It ends when the last reference goes, also if the client has gone before
/// the answer begins.
final class QueryWatch: Sendable {
    let watcher: QueryWatcher
    private let number: Int
    private let hub: QueryHub

    fileprivate init(_ watcher: QueryWatcher, number: Int, hub: QueryHub) {
        self.watcher = watcher
        self.number = number
        self.hub = hub
    }

    deinit { end() }

    func end() { hub.forget(number) }
}

/// The live queries of a mount.
final class QueryHub: Sendable {
    /// Live queries at one time.
    static let maximumWatchers = 64

    private struct State {
        var watchers: [Int: QueryWatcher] = [:]
        var nextNumber = 0
        var isClosed = false
    }

    private let state = Lock(State())

    var hasWatchers: Bool { state.withLock { !$0.watchers.isEmpty } }

    /// Nil if there are too many, or the mount is ending.
    func watch() -> QueryWatch? {
        state.withLock { state in
            guard !state.isClosed, state.watchers.count < Self.maximumWatchers else { return nil }
            state.nextNumber += 1
            let watcher = QueryWatcher()
            state.watchers[state.nextNumber] = watcher
            return QueryWatch(watcher, number: state.nextNumber, hub: self)
        }
    }

    fileprivate func forget(_ number: Int) { state.withLock { $0.watchers.removeValue(forKey: number) }?.close() }

    func note(_ events: [IndexEvent]) { for watcher in all { watcher.note(events) } }
    func note(_ rows: [ItemRow]) { for watcher in all { watcher.note(rows) } }
    func beat() { for watcher in all { watcher.beat() } }

    private var all: [QueryWatcher] { state.withLock { Array($0.watchers.values) } }

    func close() {
        let watchers = state.withLock { state in
            state.isClosed = true
            defer { state.watchers = [:] }
            return Array(state.watchers.values)
        }
        for watcher in watchers { watcher.close() }
    }
}
