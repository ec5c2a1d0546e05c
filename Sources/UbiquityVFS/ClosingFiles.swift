internal import Synchronization
internal import UbiquitySystem

/// Handles whose last close the kernel has told of a moment ago, and the index has not been told of yet.
///
/// What a program does after a close is often a change of the index as well: the new file takes the old one's name, the
/// next file of an archive is made. That change takes the note along, so that both are one transaction, and no other
/// thread has the index when the program comes. If nothing comes the note is made by itself.
///
/// The kernel tells of a close when the program has long gone on; a little later is nothing that anybody could count
/// on being earlier. Who asks whether a file is open has the notes made first.
///
/// Lock order: a leaf.
final class ClosingFiles: Sendable {
    /// So long a note waits for company, at most.
    static let delay: Duration = .milliseconds(2)
    /// Handles that wait at one time.
    static let maximum = 64
    /// So often nothing has come before nobody looks any more: a program that saves or unpacks goes on sooner.
    private static let idleLooks = 50

    private struct State {
        /// In the order of their closes.
        var handles: [(ino: UInt64, handle: UInt64)] = []
        /// New files that were synced once.
        var written: Set<UInt64> = []
        var isWatched = false
        var looks = 0
    }
    private let state = Lock(State())
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    /// - Returns: false if there is no room.
    func add(_ handle: UInt64, of ino: UInt64) -> Bool {
        state.withLock { state in
            guard state.handles.count < Self.maximum else { return false }
            state.handles.append((ino, handle))
            state.looks = 0
            count.store(state.handles.count, ordering: .releasing)
            return true
        }
    }

    /// The handle that has waited longest, of this inode or of any; it is the caller's to release.
    func take(_ ino: UInt64? = nil) -> UInt64? {
        guard !isEmpty else { return nil }
        return state.withLock { state in
            guard let index = state.handles.firstIndex(where: { ino == nil || $0.ino == ino }) else { return nil }
            let handle = state.handles.remove(at: index).handle
            count.store(state.handles.count, ordering: .releasing)
            return handle
        }
    }

    func has(_ ino: UInt64) -> Bool { state.withLock { $0.handles.contains { $0.ino == ino } } }

    /// Of a new file, which is synced and may stay open, the index is told as much later.
    /// - Returns: false if there is no room.
    func addWritten(_ ino: UInt64) -> Bool {
        state.withLock { state in
            guard state.written.count < Self.maximum else { return false }
            state.written.insert(ino)
            state.looks = 0
            return true
        }
    }

    func takeWritten() -> Set<UInt64> {
        state.withLock { state in
            defer { state.written = [] }
            return state.written
        }
    }

    /// - Returns: false if somebody looks already.
    func beginWatch() -> Bool {
        state.withLock { state in
            defer { state.isWatched = true }
            return !state.isWatched
        }
    }

    /// Whether nothing has come for long; then the watch is over.
    func endIfIdle() -> Bool {
        state.withLock { state in
            state.looks = state.handles.isEmpty && state.written.isEmpty ? state.looks + 1 : 0
            if state.looks > Self.idleLooks { state.isWatched = false }
            return !state.isWatched
        }
    }
}
