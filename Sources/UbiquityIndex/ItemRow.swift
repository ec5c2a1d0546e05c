package import UbiquityCore

/// An item as this device shows it: the cloud's record, overlaid with local changes that are not committed at the cloud
/// yet.
///
/// Rows are passed through caches, events and answers, and seldom change. So their fields are in one box, which is
/// copied when a shared row changes.
package struct ItemRow: Sendable, Hashable {
    private var box: Box

    package init(
        key: ItemKey, ino: UInt64, id: ItemID, kind: ItemKind, mode: UInt32, uid: UInt32, gid: UInt32, size: Int64,
        createdAt: Timestamp, modifiedAt: Timestamp, changedAt: Timestamp, linkTarget: [UInt8], xattrs: [Xattr],
        localXattrs: [Xattr], entry: Entry?, version: VersionID?, content: ContentID?, contentState: ContentState,
        flags: ItemFlags, dirty: DirtyFields, dirtyOrder: Int64, dirtyBase: Revision, dirtyAt: Timestamp,
        dirtyTimes: [FieldTime] = [], generation: Int64, nextVersion: VersionID?, usedAt: Timestamp
    ) {
        box = Box(
            Fields(
                key: key, ino: ino, id: id, kind: kind, mode: mode, uid: uid, gid: gid, size: size,
                createdAt: createdAt, modifiedAt: modifiedAt, changedAt: changedAt, linkTarget: linkTarget,
                xattrs: xattrs, localXattrs: localXattrs, entry: entry, version: version, content: content,
                contentState: contentState, flags: flags, dirty: dirty, dirtyOrder: dirtyOrder, dirtyBase: dirtyBase,
                dirtyAt: dirtyAt, dirtyTimes: dirtyTimes, generation: generation, nextVersion: nextVersion,
                usedAt: usedAt))
    }

    private final class Box: @unchecked Sendable {
        // Changed only while one row alone has the box, and the accesses to that row are checked.
        @exclusivity(unchecked) var fields: Fields
        init(_ fields: Fields) { self.fields = fields }
    }

    private struct Fields: Hashable {
        var key: ItemKey
        var ino: UInt64
        var id: ItemID
        var kind: ItemKind
        var mode: UInt32
        var uid: UInt32
        var gid: UInt32
        var size: Int64
        var createdAt: Timestamp
        var modifiedAt: Timestamp
        var changedAt: Timestamp
        var linkTarget: [UInt8]
        var xattrs: [Xattr]
        var localXattrs: [Xattr]
        var entry: Entry?
        var version: VersionID?
        var content: ContentID?
        var contentState: ContentState
        var flags: ItemFlags
        var dirty: DirtyFields
        var dirtyOrder: Int64
        var dirtyBase: Revision
        var dirtyAt: Timestamp
        var dirtyTimes: [FieldTime]
        var generation: Int64
        var nextVersion: VersionID?
        var usedAt: Timestamp
    }

    /// Copies the box if other rows share it, so that they do not see a change.
    private mutating func own() {
        if !isKnownUniquelyReferenced(&box) { box = Box(box.fields) }
    }

    package static func == (one: ItemRow, other: ItemRow) -> Bool {
        one.box === other.box || one.box.fields == other.box.fields
    }
    package func hash(into hasher: inout Hasher) { box.fields.hash(into: &hasher) }

    package var key: ItemKey {
        get { box.fields.key }
        _modify {
            own()
            yield &box.fields.key
        }
    }
    /// The inode number programs see. It changes only when a remote update replaces local content, so that programs
    /// that hold the old file open keep the old one.
    package var ino: UInt64 {
        get { box.fields.ino }
        _modify {
            own()
            yield &box.fields.ino
        }
    }
    package var id: ItemID {
        get { box.fields.id }
        _modify {
            own()
            yield &box.fields.id
        }
    }
    package var kind: ItemKind {
        get { box.fields.kind }
        _modify {
            own()
            yield &box.fields.kind
        }
    }
    /// Permission bits, 0o7777.
    package var mode: UInt32 {
        get { box.fields.mode }
        _modify {
            own()
            yield &box.fields.mode
        }
    }
    package var uid: UInt32 {
        get { box.fields.uid }
        _modify {
            own()
            yield &box.fields.uid
        }
    }
    package var gid: UInt32 {
        get { box.fields.gid }
        _modify {
            own()
            yield &box.fields.gid
        }
    }
    /// Bytes: of the local content, or of the remote version for a placeholder; the text's length for a symlink.
    package var size: Int64 {
        get { box.fields.size }
        _modify {
            own()
            yield &box.fields.size
        }
    }
    package var createdAt: Timestamp {
        get { box.fields.createdAt }
        _modify {
            own()
            yield &box.fields.createdAt
        }
    }
    package var modifiedAt: Timestamp {
        get { box.fields.modifiedAt }
        _modify {
            own()
            yield &box.fields.modifiedAt
        }
    }
    /// ctime, on this device only.
    package var changedAt: Timestamp {
        get { box.fields.changedAt }
        _modify {
            own()
            yield &box.fields.changedAt
        }
    }
    /// A symlink's text. For a hard link, the id of its target (`linkedID`); for a device node, its number (`device`).
    package var linkTarget: [UInt8] {
        get { box.fields.linkTarget }
        _modify {
            own()
            yield &box.fields.linkTarget
        }
    }
    /// Synced attributes (`user.…`), sorted by name.
    package var xattrs: [Xattr] {
        get { box.fields.xattrs }
        _modify {
            own()
            yield &box.fields.xattrs
        }
    }
    /// Attributes of other namespaces, sorted by name. They stay on this device.
    package var localXattrs: [Xattr] {
        get { box.fields.localXattrs }
        _modify {
            own()
            yield &box.fields.localXattrs
        }
    }

    /// The directory entry; nil if the item has none (deleted here, or displaced by another item of its name).
    package var entry: Entry? {
        get { box.fields.entry }
        _modify {
            own()
            yield &box.fields.entry
        }
    }

    /// The version of the local content or the placeholder; nil if the item was never at the cloud. It is the base of
    /// the next version, because local edits start from it.
    package var version: VersionID? {
        get { box.fields.version }
        _modify {
            own()
            yield &box.fields.version
        }
    }
    /// The backing file; nil for a placeholder.
    package var content: ContentID? {
        get { box.fields.content }
        _modify {
            own()
            yield &box.fields.content
        }
    }
    package var contentState: ContentState {
        get { box.fields.contentState }
        _modify {
            own()
            yield &box.fields.contentState
        }
    }
    package var flags: ItemFlags {
        get { box.fields.flags }
        _modify {
            own()
            yield &box.fields.flags
        }
    }

    /// The fields changed here and not yet committed at the cloud.
    package var dirty: DirtyFields {
        get { box.fields.dirty }
        set {
            own()
            box.fields.dirty = newValue
            if !dirtyTimes.isEmpty { box.fields.dirtyTimes.removeAll { !newValue.contains($0.field.flag) } }
        }
    }
    /// The order in which items became dirty. Changes are uploaded in this order.
    package var dirtyOrder: Int64 {
        get { box.fields.dirtyOrder }
        _modify {
            own()
            yield &box.fields.dirtyOrder
        }
    }
    /// The item's remote revision when it became dirty: the base of the change.
    package var dirtyBase: Revision {
        get { box.fields.dirtyBase }
        _modify {
            own()
            yield &box.fields.dirtyBase
        }
    }
    /// The time the last local change was recorded, by this device's clock; see `lastChange`.
    package var dirtyAt: Timestamp {
        get { box.fields.dirtyAt }
        _modify {
            own()
            yield &box.fields.dirtyAt
        }
    }
    /// The times of dirty fields changed before `dirtyAt`, and of each attribute. A field not listed here was changed
    /// at `dirtyAt`.
    package private(set) var dirtyTimes: [FieldTime] {
        get { box.fields.dirtyTimes }
        _modify {
            own()
            yield &box.fields.dirtyTimes
        }
    }

    mutating func setTime(of field: FieldTime.Field, _ time: Timestamp?) {
        guard time != nil || !dirtyTimes.isEmpty else { return }
        dirtyTimes.removeAll { $0.field == field }
        if let time { dirtyTimes.append(FieldTime(field, at: time)) }
    }

    /// Counts changes of content here. It shows whether the content changed during an upload.
    package var generation: Int64 {
        get { box.fields.generation }
        _modify {
            own()
            yield &box.fields.generation
        }
    }
    /// The version id that the dirty content will get. It is drawn before the first send, so that a retry after a crash
    /// sends the same version.
    package var nextVersion: VersionID? {
        get { box.fields.nextVersion }
        _modify {
            own()
            yield &box.fields.nextVersion
        }
    }
    /// The time of the last open.
    package var usedAt: Timestamp {
        get { box.fields.usedAt }
        _modify {
            own()
            yield &box.fields.usedAt
        }
    }

    package struct Entry: Sendable, Hashable {
        package var parent: ItemKey
        package var name: ItemName
        package init(parent: ItemKey, name: ItemName) {
            self.parent = parent
            self.name = name
        }
    }

    /// The number of a device node, as in `st_rdev`; 0 for anything else.
    package var device: UInt32 {
        guard kind == .characterDevice || kind == .blockDevice else { return 0 }
        return linkTarget.reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// The id of a hard link's target; nil for anything else.
    package var linkedID: ItemID? { kind == .hardLink ? ItemID(bytes: linkTarget) : nil }
    /// Whether hard links refer to the item.
    package var isLinked: Bool { flags.contains(.linked) }

    package var isPlaceholder: Bool { kind == .file && contentState != .complete }
    package var isDeleted: Bool { dirty.contains(.deleted) }
    package var isWriting: Bool { flags.contains(.writing) }
    package var isExcluded: Bool { flags.contains(.excluded) }
    /// Whether the item is on this device only: excluded from sync, or deleted elsewhere and kept for excluded items in
    /// it.
    package var staysHere: Bool { isExcluded || flags.contains(.lingering) }
    package var isPinned: Bool { flags.contains(.pinned) }
    /// Whether the content should be here, whatever the policy says.
    package var isAskedFor: Bool { !flags.isDisjoint(with: [.pinned, .keptCurrent, .downloadRequested]) }
    package var isFresh: Bool { flags.contains(.fresh) }
}

/// How much of a file's content is on this device. The numbers are stored.
public enum ContentState: UInt8, Sendable, Hashable {
    /// A placeholder.
    case none = 0
    /// A sparse backing file that is being filled.
    case partial = 1
    case complete = 2
}

public struct ItemFlags: OptionSet, Sendable, Hashable {
    public let rawValue: Int64
    public init(rawValue: Int64) { self.rawValue = rawValue }
    /// A program has the file open for writing. The flag is stored before the open is answered, so that a change made
    /// just before the daemon died is found.
    public static let writing = ItemFlags(rawValue: 1)
    public static let pinned = ItemFlags(rawValue: 2)
    /// The item never leaves this device.
    public static let excluded = ItemFlags(rawValue: 4)
    /// The file was downloaded once. Newer versions are downloaded automatically until it is evicted.
    public static let keptCurrent = ItemFlags(rawValue: 8)
    /// A download was requested and has not ended.
    public static let downloadRequested = ItemFlags(rawValue: 16)
    /// A folder that the cloud has deleted and that stays here for the excluded items in it. It is removed after them.
    public static let lingering = ItemFlags(rawValue: 32)
    /// The creation, or the return after a deletion, was sent at least once. The cloud may have it even if no answer
    /// arrived.
    public static let creationSent = ItemFlags(rawValue: 64)
    /// A program truncated or created the file and has neither closed nor synced it yet. Until then its content gets no
    /// version.
    public static let fresh = ItemFlags(rawValue: 128)
    /// The item was deleted here and created again as the same item. If the cloud knows the deletion, the content must
    /// be uploaded to bring the item back, even if it is unchanged.
    public static let returned = ItemFlags(rawValue: 256)
    /// Hard links refer to the item: it has more names than its entry.
    public static let linked = ItemFlags(rawValue: 512)
    /// The user requested the download. The disk floor does not evict the content within a day of its last use.
    public static let broughtOnRequest = ItemFlags(rawValue: 1024)
    /// The item was made on this device, and no other device has changed it since.
    public static let madeHere = ItemFlags(rawValue: 2048)
}

/// Fields of an item changed on this device since the last commit.
public struct DirtyFields: OptionSet, Sendable, Hashable {
    public let rawValue: Int64
    public init(rawValue: Int64) { self.rawValue = rawValue }
    /// The cloud has not seen the item: everything is uploaded.
    public static let created = DirtyFields(rawValue: 1)
    public static let place = DirtyFields(rawValue: 2)
    public static let mode = DirtyFields(rawValue: 4)
    public static let times = DirtyFields(rawValue: 8)
    public static let xattrs = DirtyFields(rawValue: 16)
    public static let content = DirtyFields(rawValue: 32)
    public static let deleted = DirtyFields(rawValue: 64)
    public static let metadata: DirtyFields = [.created, .place, .mode, .times, .xattrs]
}
