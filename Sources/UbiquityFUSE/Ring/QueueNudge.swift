internal import Glibc
internal import Synchronization

/// Makes the kernel place its queued requests in new entries.
///
/// The kernel queues a request if its core has no free entry. It looks at the queue when an entry is answered, but not
/// when one is registered (fuse_uring_do_register in its fs/fuse/dev_uring.c). If all placed requests wait for another
/// program or the network, queued ones would wait for them beside free entries. So each new entry gets a request that
/// is answered at once: it takes the entry, and after its answer the oldest queued request takes that. One such request
/// per new entry is enough, because no entry was free before.
///
/// To cause such a request, this type asks the kernel for zero bytes of a file's cached content (FUSE_NOTIFY_RETRIEVE).
/// The kernel sends its answer as a request, to the core that asks.
enum QueueNudge {
    /// In the kernel's linux/fuse.h: enum fuse_notify_code and enum fuse_opcode.
    private static let retrieve: Int32 = 5
    private static let reply: UInt32 = 41
    /// Set in the numbers of these requests. They must be even and different from all others, because an answer finds
    /// its entry by number. The kernel counts its own from 0.
    private static let mark: UInt64 = 1 << 62
    private static let counter = Atomic<UInt64>(0)

    /// Struct fuse_out_header and fuse_notify_retrieve_out.
    private struct Message {
        var length = UInt32(MemoryLayout<Message>.size)
        var code = QueueNudge.retrieve
        var none: UInt64 = 0
        var request: UInt64 = 0
        var node: UInt64
        var offset: UInt64 = 0
        var size: UInt32 = 0
        var padding: UInt32 = 0
    }

    /// Causes `count` such requests. Call it on the core, once each core has an entry: before that it would block.
    /// - Parameter node: a regular file that the kernel knows.
    /// - Returns: the number caused; fewer if it is no such file, the kernel is short of memory, or the mount has
    ///   ended.
    static func send(_ count: Int, node: UInt64, session: Int32) -> Int {
        var message = Message(node: node)
        for sent in 0..<count {
            message.request = mark | counter.add(2, ordering: .relaxed).newValue
            guard write(session, &message, MemoryLayout<Message>.size) > 0 else { return sent }
        }
        return count
    }

    static func isOne(_ entry: RingEntry) -> Bool { entry.opcode == reply && entry.request & mark != 0 }
}
