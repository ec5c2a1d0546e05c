internal import CFUSE
package import Logging
package import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// Sends invalidations to the kernel, in order, from a thread of its own.
///
/// The kernel takes a directory's lock for an invalidation, and a program that holds the lock may wait for an answer of
/// this process. So the thread serves no requests and holds no lock while it sends. An invalidation that already waits
/// is not queued twice, and the file system sends only those for entries and inodes the kernel knows. So the queue is
/// never longer than the number of those.
package final class KernelNotifier: KernelCache {
    /// One invalidation.
    private enum News: Hashable, Sendable {
        case entry(parent: UInt64, name: ItemName)
        case attributes(UInt64)
        case listing(UInt64)
    }

    private struct State {
        var session: OpaquePointer?
        var waiting: [News] = []
        var known: Set<News> = []
        /// Whether the thread is in a call to the kernel.
        var isTelling = false
        var isClosed = false
    }

    private let state = Monitor(State())
    private let logger: Logger

    package init(logger: Logger) { self.logger = logger }

    package func invalidateEntry(parent: UInt64, name: ItemName) { add(.entry(parent: parent, name: name)) }
    package func invalidateAttributes(ino: UInt64) { add(.attributes(ino)) }
    package func invalidateListing(directory: UInt64) { add(.listing(directory)) }

    package var hasNews: Bool { state.withLock { !$0.waiting.isEmpty || $0.isTelling } }

    private func add(_ news: News) {
        let isFirst = state.withLock { state -> Bool in
            guard !state.isClosed, state.known.insert(news).inserted else { return false }
            state.waiting.append(news)
            return state.waiting.count == 1
        }
        if isFirst { state.signal() }
    }

    /// Starts sending. Earlier invalidations are sent now.
    func start(session: OpaquePointer) {
        state.withLock { $0.session = session }
        DedicatedThread.start(name: "kernel-news") { [self] in run() }
    }

    /// Ends the thread after the invalidation in progress and drops the others. Returns without waiting.
    func close() {
        state.withLock {
            $0.isClosed = true
            $0.waiting = []
            $0.known = []
        }
        state.broadcast()
    }

    /// Waits until the thread sends nothing more, so that the session can be destroyed.
    /// - Returns: false if it still sends after `limit`.
    func waitUntilClosed(atMost limit: Duration) -> Bool {
        state.wait(atMost: limit) { $0.isClosed && !$0.isTelling ? true : nil } ?? false
    }

    private func run() {
        while let (session, batch) = next() {
            for news in batch { tell(news, session) }
        }
    }

    private func next() -> (OpaquePointer, [News])? {
        state.withLock { $0.isTelling = false }
        state.broadcast()
        return state.wait { state -> (OpaquePointer, [News])?? in
            if state.isClosed { return .some(nil) }
            guard let session = state.session, !state.waiting.isEmpty else { return nil }
            let batch = state.waiting
            state.waiting = []
            state.known = []
            state.isTelling = true
            return .some((session, batch))
        }
    }

    private func tell(_ news: News, _ session: OpaquePointer) {
        guard !state.withLock({ $0.isClosed }) else { return }
        let result =
            switch news {
            case .entry(let parent, let name): Self.invalidate(entry: name, in: parent, session)
            // A negative offset invalidates attributes only.
            case .attributes(let ino): fuse_lowlevel_notify_inval_inode(session, ino, -1, 0)
            case .listing(let ino): Self.invalidate(listing: ino, session)
            }
        // ENOENT: the kernel had nothing cached. ENODEV: the mount is gone.
        if result != 0, result != -Errno.ENOENT.rawValue, result != -Errno.ENODEV.rawValue,
            result != -Errno.ENOTCONN.rawValue
        {
            logger.warning(
                "the kernel refused an invalidation", metadata: ["errno": "\(-result)", "invalidation": "\(news)"])
        }
    }

    /// Invalidates a directory's listing. A reader answered before the change may be about to cache that answer, and
    /// holds the directory's lock meanwhile. An invalidation of an entry waits for that lock; the name "." never
    /// exists. Then all pages of the directory (from 0 without a length), which are its listing, are dropped.
    private static func invalidate(listing ino: UInt64, _ session: OpaquePointer) -> Int32 {
        let turn = fuse_lowlevel_notify_inval_entry(session, ino, ".", 1)
        let result = fuse_lowlevel_notify_inval_inode(session, ino, 0, 0)
        return turn == 0 || turn == -Errno.ENOENT.rawValue ? result : turn
    }

    private static func invalidate(entry name: ItemName, in parent: UInt64, _ session: OpaquePointer) -> Int32 {
        name.bytes.withUnsafeBytes { bytes in
            fuse_lowlevel_notify_inval_entry(
                session, parent, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
    }
}
