/// Small files that programs read and stat again and again, such as those of a repository or a compiler's headers.
///
/// After each read that the kernel serves from a backing file it discards the cached access time
/// (fs/fuse/passthrough.c), and the next stat or fstat asks this process. Reads from the kernel's own pages do not.
/// Once those are filled, opening, examining and reading such a file takes one request, not two.
enum Rereading {
    /// In bytes. The kernel has such a file in memory twice, and fills its pages with one request.
    static let largest: Int64 = 128 << 10

    /// Counts the kernel's requests for a file's attributes.
    struct Looks {
        /// After this many requests more will follow: filling the pages costs as much as one of them.
        private static let many: UInt8 = 2

        private var count: UInt8 = 0

        mutating func add() { if count < Self.many { count += 1 } }
        var areMany: Bool { count == Self.many }
    }
}
