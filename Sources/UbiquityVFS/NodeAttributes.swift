package import UbiquityCore

/// An item's attributes as in stat(2).
package struct NodeAttributes: Hashable, Sendable {
    package var ino: UInt64
    /// Type and permission bits, as in `st_mode`.
    package var mode: UInt32
    package var links: UInt32
    package var uid: UInt32
    package var gid: UInt32
    /// In bytes.
    package var size: Int64
    /// Units of 512 bytes allocated on this device.
    package var blocks: Int64
    package var accessedAt: Timestamp
    package var modifiedAt: Timestamp
    package var changedAt: Timestamp
    /// Creation time; nil if not known.
    package var createdAt: Timestamp?
    /// Device number of a device node, as in `st_rdev`; else 0.
    package var device: UInt32 = 0
    /// Whether the kernel must ask again each time.
    package var isVolatile = false
    /// The same, but name and inode stay valid: the kernel cannot know when size and times change.
    package var isChanging = false

    package var permissions: UInt32 { mode & FileMode.permissions }
    package var isDirectory: Bool { mode & FileMode.typeMask == FileMode.directory }
}

/// The bits of `st_mode`; they are the same on every Linux.
package enum FileMode {
    package static let typeMask: UInt32 = 0o170000
    package static let file: UInt32 = 0o100000
    package static let directory: UInt32 = 0o040000
    package static let symlink: UInt32 = 0o120000
    package static let fifo: UInt32 = 0o010000
    package static let socket: UInt32 = 0o140000
    package static let characterDevice: UInt32 = 0o020000
    package static let blockDevice: UInt32 = 0o060000
    package static let permissions: UInt32 = 0o7777
    package static let setUser: UInt32 = 0o4000
    package static let setGroup: UInt32 = 0o2000
    package static let groupExecute: UInt32 = 0o0010

    package static func type(of kind: ItemKind) -> UInt32 {
        switch kind {
        // A hard link is a name of a file and has no attributes of its own.
        case .file, .hardLink: file
        case .directory: directory
        case .symlink: symlink
        case .fifo: fifo
        case .socket: socket
        case .characterDevice: characterDevice
        case .blockDevice: blockDevice
        }
    }

    /// The kind that mknod(2) creates for the mode's type; nil if it does not create that type.
    static func kindOfNode(_ mode: UInt32) -> ItemKind? {
        switch mode & typeMask {
        case 0, file: .file
        case fifo: .fifo
        case socket: .socket
        case characterDevice: .characterDevice
        case blockDevice: .blockDevice
        default: nil
        }
    }
}

/// The fields that a setattr changes; nil leaves a field unchanged.
package struct AttributeChanges: Hashable, Sendable {
    /// Permission bits.
    package var mode: UInt32?
    package var uid: UInt32?
    package var gid: UInt32?
    package var size: Int64?
    package var accessedAt: Time?
    package var modifiedAt: Time?
    /// Whether to clear set-user-id and set-group-id: the owner is set without a change, or a caller that may not keep
    /// them is about to write.
    package var dropsPrivileges = false

    package enum Time: Hashable, Sendable {
        case now
        case at(Timestamp)
    }

    package init(
        mode: UInt32? = nil, uid: UInt32? = nil, gid: UInt32? = nil, size: Int64? = nil, accessedAt: Time? = nil,
        modifiedAt: Time? = nil, dropsPrivileges: Bool = false
    ) {
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.size = size
        self.accessedAt = accessedAt
        self.modifiedAt = modifiedAt
        self.dropsPrivileges = dropsPrivileges
    }
}

/// The calling process.
package struct Caller: Hashable, Sendable {
    package var uid: UInt32
    package var gid: UInt32
    package var pid: Int32

    package init(uid: UInt32, gid: UInt32, pid: Int32) {
        self.uid = uid
        self.gid = gid
        self.pid = pid
    }
}

extension NodeAttributes {
    /// Inode number and type only, as in a listing without attributes.
    static func identity(of ino: UInt64, _ kind: ItemKind) -> NodeAttributes {
        NodeAttributes(
            ino: ino, mode: FileMode.type(of: kind), links: 1, uid: 0, gid: 0, size: 0, blocks: 0, accessedAt: .zero,
            modifiedAt: .zero, changedAt: .zero)
    }
}
