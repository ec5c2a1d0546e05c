package import UbiquityCore
internal import UbiquityIndex

/// A remote change that the index has committed and the kernel does not know yet.
///
/// To *replay* it, the replay process makes the system calls by which a local program would have made the change. The
/// file system recognizes the caller, reports success and changes nothing. So the kernel itself notifies programs that
/// watch the folder (inotify, fanotify). The index never waits for a replay and never depends on it. If a change cannot
/// be replayed, the kernel's cache is merely invalidated.
struct Replay: Sendable {
    enum Action: Sendable {
        case make(ItemRow.Entry)
        case remove(ItemRow.Entry, ItemRow)
        case move(from: ItemRow.Entry, to: ItemRow.Entry)
        /// Another content with another inode replaces the old one, as when a program saves by renaming.
        case replace(ItemRow.Entry, old: ItemRow)
        /// Changed mode, times or attributes.
        case touch(ItemRow.Entry)
    }

    let event: IndexEvent
    var action: Action

    /// The row of the event; for a hard link, the link's row.
    var row: ItemRow? { event.after ?? event.before }

    /// For a folder that is moved or removed: the folder and its old entry.
    var departure: (key: ItemKey, from: ItemRow.Entry)? {
        guard let row, row.kind == .directory else { return nil }
        switch action {
        case .remove(let entry, _), .move(let entry, _): return (row.key, entry)
        case .make, .replace, .touch: return nil
        }
    }

    /// The item of a move or a removal.
    var leavingKey: ItemKey? { origin == nil ? nil : row?.key }

    /// The folder that the replay creates.
    var madeFolder: ItemKey? { isMaking && row?.kind == .directory ? row?.key : nil }

    var isMaking: Bool { if case .make = action { true } else { false } }

    /// The old name of a moved or removed item.
    var origin: ItemRow.Entry? {
        get {
            switch action {
            case .remove(let entry, _), .move(let entry, _): entry
            case .make, .replace, .touch: nil
            }
        }
        set {
            guard let newValue else { return }
            switch action {
            case .remove(_, let row): action = .remove(newValue, row)
            case .move(_, let to): action = .move(from: newValue, to: to)
            case .make, .replace, .touch: return
            }
        }
    }
}

extension Replay {
    /// Orders removals so that a folder's contents are removed before the folder, in whichever order the index removed
    /// them. The index removes a folder early if another item takes its name, before it knows that the contents go as
    /// well.
    static func innermostFirst(_ replays: ArraySlice<Replay>) -> [Replay] {
        let replays = Array(replays)
        var inside: [ItemKey: [Int]] = [:]
        for (index, replay) in replays.enumerated() {
            if case .remove(let entry, _) = replay.action { inside[entry.parent, default: []].append(index) }
        }
        var ordered = [Replay](), isPlaced = Array(repeating: false, count: replays.count)
        for index in replays.indices {
            var waiting = [index]
            while let next = waiting.last {
                if !isPlaced[next], let key = replays[next].deletedFolder, let inner = inside.removeValue(forKey: key) {
                    waiting += inner.reversed()
                    continue
                }
                waiting.removeLast()
                if !isPlaced[next] { ordered.append(replays[next]) }
                isPlaced[next] = true
            }
        }
        return ordered
    }

    private var deletedFolder: ItemKey? {
        guard case .remove(_, let row) = action, row.kind == .directory else { return nil }
        return row.key
    }

    /// Nil for a change that the kernel would announce to no watching program.
    /// - Parameter replaced: the old row of the last replacement; the events of its hard links follow.
    init?(_ event: IndexEvent, replaced: ItemRow?) {
        guard let action = Self.action(event, replaced) else { return nil }
        self.init(event: event, action: action)
    }

    private static func action(_ event: IndexEvent, _ replaced: ItemRow?) -> Action? {
        switch (event.kind, event.before, event.after) {
        case (.added, _, let after?): return after.entry.map(Action.make)
        case (.removed, let before?, _): return before.entry.map { .remove($0, before) }
        case (.moved, let before?, let after?):
            guard let from = before.entry, let to = after.entry else { return nil }
            return .move(from: from, to: to)
        case (.replaced, let before?, let after?):
            guard let entry = after.entry, entry == before.entry else { return nil }
            if after.kind == .hardLink {
                return replaced.flatMap { $0.id == after.linkedID ? .replace(entry, old: $0) : nil }
            }
            return before.ino == after.ino ? nil : .replace(entry, old: before)
        case (.attributes, let before?, let after?):
            guard let entry = after.entry, before.entry == entry, looksTouched(before, after) else { return nil }
            return .touch(entry)
        default: return nil
        }
    }

    /// Whether the change looks like one made by a program. A folder's times change with its contents, so they do not
    /// count.
    private static func looksTouched(_ before: ItemRow, _ after: ItemRow) -> Bool {
        guard after.kind != .hardLink else { return false }
        return before.mode != after.mode || before.xattrs != after.xattrs || before.linkTarget != after.linkTarget
            || (before.modifiedAt != after.modifiedAt && after.kind != .directory)
    }
}

/// The system calls of one replay, for the replay process.
package struct ReplayCall: Sendable, Hashable {
    package enum Kind: UInt8, Sendable {
        case makeFile, makeDirectory, makeSymlink, removeFile, removeDirectory, move, replace, touch
    }

    /// A name in a folder of the mount.
    package struct Place: Sendable, Hashable {
        /// Path from the top folder, without a slash at either end; empty for the top folder.
        package var folder: [UInt8]
        /// The folder's inode number, because the path may lead elsewhere by then.
        package var inode: UInt64
        package var name: [UInt8]
        package init(folder: [UInt8], inode: UInt64, name: [UInt8]) {
            self.folder = folder
            self.inode = inode
            self.name = name
        }
    }

    package var kind: Kind
    package var place: Place
    /// The new place in a move or a replacement.
    package var target: Place?
    /// The target text of a symlink.
    package var text: [UInt8] = []
    /// The modification time that a touch sets.
    package var modifiedAt: Timestamp = .zero

    package init(_ kind: Kind, _ place: Place, target: Place? = nil) {
        self.kind = kind
        self.place = place
        self.target = target
    }
}
