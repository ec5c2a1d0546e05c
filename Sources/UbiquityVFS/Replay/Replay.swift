package import UbiquityCore
internal import UbiquityIndex

/// A change that another device made, that is in the index already, and that the kernel has not heard of.
///
/// It is *replayed*: a process of ours makes the system calls by which a program of this machine would have made the
/// change, and the file system, which knows the caller, answers that all is well and changes nothing. So the kernel
/// itself tells those who watch the folder (inotify, fanotify). The index never waits for it and never depends on it:
/// what cannot be replayed, the kernel is merely made to forget.
struct Replay: Sendable {
    enum Action: Sendable {
        case make(ItemRow.Entry)
        case remove(ItemRow.Entry, ItemRow)
        case move(from: ItemRow.Entry, to: ItemRow.Entry)
        /// Another content, with another inode, in the place of the old one: as when a program saves by renaming.
        case replace(ItemRow.Entry, old: ItemRow)
        /// Mode, times or attributes.
        case touch(ItemRow.Entry)
    }

    let event: IndexEvent
    var action: Action

    /// What the event is about: of a hard link, the link.
    var row: ItemRow? { event.after ?? event.before }

    /// Of a folder that goes from where it was: where that is.
    var departure: (key: ItemKey, from: ItemRow.Entry)? {
        guard let row, row.kind == .directory else { return nil }
        switch action {
        case .remove(let entry, _), .move(let entry, _): return (row.key, entry)
        case .make, .replace, .touch: return nil
        }
    }

    /// The item, of a move or a removal.
    var leavingKey: ItemKey? { origin == nil ? nil : row?.key }

    /// The folder, of a making of one.
    var madeFolder: ItemKey? { isMaking && row?.kind == .directory ? row?.key : nil }

    var isMaking: Bool { if case .make = action { true } else { false } }

    /// The name that it goes from, of a move or a removal.
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
    /// What is deleted with its folder is told of before that, whichever the index lost first: a folder whose name
    /// something else has taken goes before it is known that all in it goes as well.
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

    /// Nil for what no program that watches would be told of.
    /// - Parameter replaced: of what was replaced last, the row before; its hard links' events follow.
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

    /// Whether a program must have set something. A folder's times change with what is in it.
    private static func looksTouched(_ before: ItemRow, _ after: ItemRow) -> Bool {
        guard after.kind != .hardLink else { return false }
        return before.mode != after.mode || before.xattrs != after.xattrs || before.linkTarget != after.linkTarget
            || (before.modifiedAt != after.modifiedAt && after.kind != .directory)
    }
}

/// The system calls of a replay, for the process that makes them.
package struct ReplayCall: Sendable, Hashable {
    package enum Kind: UInt8, Sendable {
        case makeFile, makeDirectory, makeSymlink, removeFile, removeDirectory, move, replace, touch
    }

    /// A name in a folder of the mount.
    package struct Place: Sendable, Hashable {
        /// From the top folder, without a slash at either end; empty for the top folder.
        package var folder: [UInt8]
        /// The folder's inode number: a path may lead elsewhere by then.
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
    /// Where it goes, of a move and a replacement.
    package var target: Place?
    /// A symlink's text.
    package var text: [UInt8] = []
    /// What a touch sets.
    package var modifiedAt: Timestamp = .zero

    package init(_ kind: Kind, _ place: Place, target: Place? = nil) {
        self.kind = kind
        self.place = place
        self.target = target
    }
}
