/// Small files that programs read and look at again and again, as those of a repository or a compiler's headers.
///
/// After each read that the kernel serves from a backing file it takes the access time for unknown
/// (fs/fuse/passthrough.c), and the next stat or fstat asks this process. What it reads from its own pages changes
/// nothing: once they are filled, to open, look at and read such a file takes one question, not two.
enum Rereading {
    /// Bytes; what the kernel has twice in memory then, and fills by one question.
    static let largest: Int64 = 128 << 10

    /// The kernel's questions for a file's attributes.
    struct Looks {
        /// So many tell that there will be more: filling the pages costs as much as one of them.
        private static let many: UInt8 = 2

        private var count: UInt8 = 0

        mutating func add() { if count < Self.many { count += 1 } }
        var areMany: Bool { count == Self.many }
    }
}
