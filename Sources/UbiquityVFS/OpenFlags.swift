/// The flags of open(2) as the kernel passes them on. The numbers are those of x86 and arm64 Linux alike, but for
/// those that are not needed here.
public struct OpenFlags: OptionSet, Hashable, Sendable {
    public let rawValue: Int32
    public init(rawValue: Int32) { self.rawValue = rawValue }

    public static let writeOnly = OpenFlags(rawValue: 0o1)
    public static let readWrite = OpenFlags(rawValue: 0o2)
    public static let create = OpenFlags(rawValue: 0o100)
    public static let exclusive = OpenFlags(rawValue: 0o200)
    public static let truncate = OpenFlags(rawValue: 0o1000)
    public static let append = OpenFlags(rawValue: 0o2000)
    public static let nonBlocking = OpenFlags(rawValue: 0o4000)
    /// O_DSYNC, which is part of O_SYNC: what a write has said is on the disk. The kernel sees to that for the bytes,
    /// but for those that it hands over directly (O_DIRECT).
    public static let dataSync = OpenFlags(rawValue: 0o10000)
    /// O_NOATIME: programs that look at a file's first bytes open it so (`NoAccessTimeReaders`).
    public static let noAccessTime = OpenFlags(rawValue: 0o1000000)
    /// Not the kernel's: the content is not here, and who opened it gets no download (`BackgroundReaders`).
    static let refused = OpenFlags(rawValue: 1 << 29)

    /// Not the kernel's: the open counts as a use (`UseLog`), and so does the close.
    static let counted = OpenFlags(rawValue: 1 << 28)

    public var writes: Bool { !isDisjoint(with: [.writeOnly, .readWrite]) }
    public var reads: Bool { !contains(.writeOnly) }
    /// Whether a mapping through the handle can be written to.
    var maps: Bool { contains(.readWrite) }
}

/// The answer to an open.
package struct OpenedFile: Hashable, Sendable {
    package var handle: UInt64
    /// Whether the kernel may keep the pages (or the listing) it has from before.
    package var keepsCache: Bool
    /// What the kernel is to read and write by itself; nil if it is to ask.
    package var backing: BackingID?
    /// Whether reads are to come here past the kernel's pages: they are answered at once, and would wait for a page
    /// that another program waits for. So would the open, for the pages to be dropped.
    package var bypassesPages = false
}

/// The answer to a create.
package struct CreatedFile: Hashable, Sendable {
    package var attributes: NodeAttributes
    package var opened: OpenedFile
}
