internal import Synchronization
internal import UbiquitySystem

/// Handles whose last close the kernel has just reported and the index has not recorded yet.
///
/// A program often changes the index right after a close: it renames the new file over the old one, or creates the next
/// file of an archive. That change records the close too. So both form one transaction, and no other thread occupies
/// the index when the program needs it. Without such a change the close is recorded by itself.
///
/// The kernel reports a close long after the program has gone on, so no program can rely on an earlier record. A query
/// whether a file is open records pending closes first.
///
/// Lock order: a leaf.
final class ClosingFiles: Sendable {
    /// Longest time a close waits for another change.
    static let delay: Duration = .milliseconds(2)
    /// Handles that wait at one time.
    static let maximum = 64
    /// Looks without a new close before the watch ends: a program that saves or unpacks continues sooner.
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

    /// - Returns: false if the queue is full.
    func add(_ handle: UInt64, of ino: UInt64) -> Bool {
        state.withLock { state in
            guard state.handles.count < Self.maximum else { return false }
            state.handles.append((ino, handle))
            state.looks = 0
            count.store(state.handles.count, ordering: .releasing)
            return true
        }
    }

    /// Removes the handle that has waited longest, of this inode or of any. The caller must release it.
    func removeFirst(_ ino: UInt64? = nil) -> UInt64? {
        guard !isEmpty else { return nil }
        return state.withLock { state in
            guard let index = state.handles.firstIndex(where: { ino == nil || $0.ino == ino }) else { return nil }
            let handle = state.handles.remove(at: index).handle
            count.store(state.handles.count, ordering: .releasing)
            return handle
        }
    }

    func has(_ ino: UInt64) -> Bool { state.withLock { $0.handles.contains { $0.ino == ino } } }

    /// Defers the record of a new file that was synced and may stay open.
    /// - Returns: false if the queue is full.
    func addWritten(_ ino: UInt64) -> Bool {
        state.withLock { state in
            guard state.written.count < Self.maximum else { return false }
            state.written.insert(ino)
            state.looks = 0
            return true
        }
    }

    func removeWritten() -> Set<UInt64> {
        state.withLock { state in
            defer { state.written = [] }
            return state.written
        }
    }

    /// - Returns: false if a watch runs already.
    func beginWatch() -> Bool {
        state.withLock { state in
            defer { state.isWatched = true }
            return !state.isWatched
        }
    }

    /// Ends the watch after enough looks without a new close.
    /// - Returns: whether the watch is over.
    func endIfIdle() -> Bool {
        state.withLock { state in
            state.looks = state.handles.isEmpty && state.written.isEmpty ? state.looks + 1 : 0
            if state.looks > Self.idleLooks { state.isWatched = false }
            return !state.isWatched
        }
    }
}
