/// The flags of open(2) as the kernel passes them on. The numbers used here are the same on x86 and arm64 Linux.
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
    /// O_DSYNC, which is part of O_SYNC: a successful write is on disk. The kernel ensures that for all bytes except
    /// those that it passes on directly (O_DIRECT).
    public static let dataSync = OpenFlags(rawValue: 0o10000)
    /// O_NOATIME: programs that sniff a file's first bytes open it this way (`NoAccessTimeReaders`).
    public static let noAccessTime = OpenFlags(rawValue: 0o1000000)
    /// Internal: the content is missing, and the opener gets no download (`BackgroundReaders`).
    static let refused = OpenFlags(rawValue: 1 << 29)

    /// Internal: the open and the close count as a use (`UseLog`).
    static let counted = OpenFlags(rawValue: 1 << 28)

    public var writes: Bool { !isDisjoint(with: [.writeOnly, .readWrite]) }
    public var reads: Bool { !contains(.writeOnly) }
    /// Whether a mapping through the handle can be written to.
    var maps: Bool { contains(.readWrite) }
}

/// The answer to an open.
package struct OpenedFile: Hashable, Sendable {
    package var handle: UInt64
    /// Whether the kernel may keep the pages (or the listing) it has cached.
    package var keepsCache: Bool
    /// The backing file the kernel is to read and write by itself; nil if it is to ask this process.
    package var backing: BackingID?
    /// Whether reads bypass the kernel's pages. Refused reads are answered at once, and would otherwise wait for a page
    /// that another program waits for. The open too would wait, for the pages to be dropped.
    package var bypassesPages = false
}

/// The answer to a create.
package struct CreatedFile: Hashable, Sendable {
    package var attributes: NodeAttributes
    package var opened: OpenedFile
}
