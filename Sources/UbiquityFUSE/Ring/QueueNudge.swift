internal import Glibc
internal import Synchronization

/// Has the kernel hand out what it has queued.
///
/// A request for which its core has no free entry is queued, and the kernel looks there when an entry is answered, but
/// not when one is registered (fuse_uring_do_register in its fs/fuse/dev_uring.c). If all requests that were handed
/// out wait, for another program or the network, those queued would wait for them beside free entries. So for each new
/// entry there is a request that is answered at once: it takes the entry, and after its answer the oldest that is
/// queued takes that. As many as there are new entries are enough, for before them none was free.
///
/// To get one, the kernel is asked for nothing of what it has of a file's content (FUSE_NOTIFY_RETRIEVE). It sends its
/// answer as a request, to the core that asks.
enum QueueNudge {
    /// In the kernel's linux/fuse.h: enum fuse_notify_code and enum fuse_opcode.
    private static let retrieve: Int32 = 5
    private static let reply: UInt32 = 41
    /// Of the numbers of these requests, which must be even and of no other one: an answer finds its entry by it. The
    /// kernel counts its own from 0.
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

    /// Asks for as many. To be called on the core, once each core has an entry: before that it would block.
    /// - Parameter node: a regular file that the kernel knows.
    /// - Returns: how many were asked for; fewer if it is no such file, the kernel is short of memory, or the mount has
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
