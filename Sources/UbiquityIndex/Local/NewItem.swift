package import UbiquityCore

/// The properties of a new item.
package struct NewItem: Sendable {
    package var kind: ItemKind
    /// Permission bits, after the caller's umask.
    package var mode: UInt32
    package var uid: UInt32
    package var gid: UInt32
    /// A symlink's text.
    package var linkTarget: [UInt8]
    /// The number of a device node, as in `st_rdev`.
    package var device: UInt32 = 0
    /// A file's (empty) backing file.
    package var content: ContentID?
    /// Whether the file is open for writing from the start.
    package var isWriting: Bool
    /// The process (or thread) that creates the item; 0 if unknown.
    package var process: Int32
    /// The former row of a file that had no name until now.
    package var unnamed: ItemRow?

    package init(
        kind: ItemKind, mode: UInt32, uid: UInt32, gid: UInt32, linkTarget: [UInt8] = [], content: ContentID? = nil,
        isWriting: Bool = false, process: Int32 = 0
    ) {
        self.kind = kind
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.linkTarget = linkTarget
        self.content = content
        self.isWriting = isWriting
        self.process = process
    }

    /// The target as stored in `ItemRow.linkTarget`.
    var storedTarget: [UInt8] {
        guard device != 0 else { return linkTarget }
        return withUnsafeBytes(of: device.littleEndian) { Array($0) }
    }
}
