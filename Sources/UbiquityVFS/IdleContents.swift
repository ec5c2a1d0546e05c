package import UbiquityCore
package import UbiquitySystem

/// Backing files that were closed a moment ago, still open and registered with the kernel, so that the next open is
/// cheap. Programs open the same files again and again; this saves a third of the cost of an open (measured).
///
/// Only readers' files are kept, and only until the item's content is replaced, evicted or deleted: a removed file
/// would keep its disk space. Lock order: a leaf. The caller closes removed contents, without the lock.
package final class IdleContents: Sendable {
    /// Number of files kept. Each costs a descriptor and an inode in the kernel's memory, about 1.5 KiB.
    package static let capacity = 4096
    /// The cache uses at most one in this many of the descriptors the process may have.
    package static let share = 4
    /// In nanoseconds: a file not opened for this long is closed.
    package static let lifetime: Int64 = 60 * 1_000_000_000

    package struct Content: Sendable {
        /// Open for reading only.
        package let file: FileDescriptor
        package let id: ContentID
        /// Its registration with the kernel; nil if this process serves it.
        package let backing: BackingID?

        package init(file: FileDescriptor, id: ContentID, backing: BackingID?) {
            self.file = file
            self.id = id
            self.backing = backing
        }
    }

    fileprivate struct Entry {
        let content: Content
        let number: UInt64
    }
    fileprivate struct State {
        var entries: [UInt64: Entry] = [:]
        /// In order of time; may still contain files that were taken since.
        var order: [(ino: UInt64, number: UInt64, at: Timestamp)] = []
        /// How many of `order` have been processed.
        var done = 0
        var next: UInt64 = 1
    }
    private let state = Lock(State())

    private let capacity: Int

    package init(capacity: Int = min(IdleContents.capacity, ProcessHost.openFileLimit / IdleContents.share)) {
        self.capacity = capacity
    }

    /// The open file of an item with this content. It stays in the cache.
    package func file(_ ino: UInt64, _ id: ContentID) -> FileDescriptor? {
        state.withLock { $0.entries[ino].flatMap { $0.content.id == id ? $0.content.file : nil } }
    }

    /// Removes and returns the item's content.
    package func remove(_ ino: UInt64) -> Content? { state.withLock { $0.entries.removeValue(forKey: ino)?.content } }

    /// - Returns: the contents that had to make place.
    package func put(_ ino: UInt64, _ content: Content, now: Timestamp) -> [Content] {
        state.withLock { state in
            let replaced = state.entries.updateValue(Entry(content: content, number: state.next), forKey: ino)
            state.order.append((ino, state.next, now))
            state.next += 1
            var gone = replaced.map { [$0.content] } ?? []
            while state.entries.count > capacity, let oldest = state.dropFirst() { gone += oldest }
            // Contents that were taken and put back many times leave outdated places in `order`.
            if state.order.count > 2 * capacity { state.compact() }
            return gone
        }
    }

    /// Removes and returns the contents that were here too long.
    package func removeOld(now: Timestamp) -> [Content] {
        state.withLock { state in
            var gone = [Content]()
            while let first = state.first, now.nanoseconds &- first.nanoseconds > Self.lifetime || now < first,
                let oldest = state.dropFirst()
            {
                gone += oldest
            }
            state.compact()
            return gone
        }
    }

    package var count: Int { state.withLock { $0.entries.count } }
}

extension IdleContents.State {
    fileprivate var first: Timestamp? { done < order.count ? order[done].at : nil }

    /// Processes the oldest place; nil if there is none.
    fileprivate mutating func dropFirst() -> [IdleContents.Content]? {
        guard done < order.count else { return nil }
        let place = order[done]
        done += 1
        guard entries[place.ino]?.number == place.number else { return [] }
        return entries.removeValue(forKey: place.ino).map { [$0.content] }
    }

    fileprivate mutating func compact() {
        order = order[done...].filter { entries[$0.ino]?.number == $0.number }
        done = 0
    }
}
