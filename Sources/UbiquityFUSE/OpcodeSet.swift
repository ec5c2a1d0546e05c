/// Kinds of the kernel's requests, by their numbers in its linux/fuse.h; asked of each request.
struct OpcodeSet: ExpressibleByArrayLiteral {
    private let bits: UInt64

    /// - Parameter opcodes: less than 64, which all are that the kernel sends here.
    init(arrayLiteral opcodes: UInt32...) { bits = opcodes.reduce(0) { $0 | 1 << UInt64($1) } }

    func contains(_ opcode: UInt32) -> Bool { opcode < 64 && bits & 1 << UInt64(opcode) != 0 }

    /// What the index and the inode's state answer. Not those that move content, wait for the disk, list folders, or
    /// wait for locks.
    static let quick: OpcodeSet = [
        1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14,  // lookup to open: names, attributes, links
        17, 18, 21, 22, 23, 24, 25, 26, 27, 29,  // statfs, release, attributes by name, flush, opendir, releasedir
        34, 35, 36, 38, 42, 45, 52,  // access, create, interrupt, destroy, forget, rename, statx
    ]
    /// FORGET and BATCH_FORGET, to which libfuse gives no answer.
    static let answerless: OpcodeSet = [2, 42]
    /// What no program waits for: these, and RELEASE and RELEASEDIR.
    static let unawaited: OpcodeSet = [2, 18, 29, 42]
    /// Opens and closes, whose answers have nothing in them of which the kernel keeps what came last: OPEN, RELEASE,
    /// FLUSH, OPENDIR and RELEASEDIR.
    static let openings: OpcodeSet = [14, 18, 25, 27, 29]
}
