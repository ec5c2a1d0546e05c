/// A set of the kernel's request kinds, by their numbers in linux/fuse.h. Checked for each request.
struct OpcodeSet: ExpressibleByArrayLiteral {
    private let bits: UInt64

    /// - Parameter opcodes: all less than 64, as are those that the kernel sends here.
    init(arrayLiteral opcodes: UInt32...) { bits = opcodes.reduce(0) { $0 | 1 << UInt64($1) } }

    func contains(_ opcode: UInt32) -> Bool { opcode < 64 && bits & 1 << UInt64(opcode) != 0 }

    /// Requests answered from the index and the inode's state. Not those that move content, wait for the disk, list
    /// folders, or wait for locks.
    static let quick: OpcodeSet = [
        1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14,  // lookup to open: names, attributes, links
        17, 18, 21, 22, 23, 24, 25, 26, 27, 29,  // statfs, release, attributes by name, flush, opendir, releasedir
        34, 35, 36, 38, 42, 45, 52,  // access, create, interrupt, destroy, forget, rename, statx
    ]
    /// FORGET and BATCH_FORGET, which libfuse does not answer.
    static let answerless: OpcodeSet = [2, 42]
    /// Requests that no program waits for: these, and RELEASE and RELEASEDIR.
    static let unawaited: OpcodeSet = [2, 18, 29, 42]
    /// OPEN, RELEASE, FLUSH, OPENDIR and RELEASEDIR. The order of their answers does not matter, because the kernel
    /// caches nothing from them.
    static let openings: OpcodeSet = [14, 18, 25, 27, 29]
}
