internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Answers to the requests of the replay process. None of them changes the index. Any request beyond the replay in
/// progress is refused, also a late one.
///
/// It has no state of its own; `Replays` has the replay in progress. `UbiquityFUSE` calls it. It calls `Namespace` and
/// `Attributes`.
package final class ReplayAnswers: Room {
    let context: FileSystemContext
    private let replays: Replays
    private let calls: ReplayCalls
    private let namespace: Namespace
    private let stat: Attributes

    init(_ context: FileSystemContext, replays: Replays, calls: ReplayCalls, namespace: Namespace, stat: Attributes) {
        self.context = context
        self.replays = replays
        self.calls = calls
        self.namespace = namespace
        self.stat = stat
    }

    /// The hidden folder out of which replacements are moved. Only the replay process sees it, in the top folder. So
    /// watching programs see a file arrive, and no temporary name.
    private var wings: NodeAttributes {
        NodeAttributes(
            ino: Replays.wingsInode, mode: FileMode.directory | 0o700, links: 2, uid: ProcessHost.userID,
            gid: ProcessHost.groupID, size: 0, blocks: 0, accessedAt: .zero, modifiedAt: .zero, changedAt: .zero,
            isVolatile: true)
    }

    /// - Returns: nil if nothing has that name.
    package func lookup(parent: UInt64, name: [UInt8]) throws -> NodeAttributes? {
        let name = name == Replays.wings.bytes ? Replays.wings : try ItemName.checked(name)
        guard let shown = replays.shown(Replays.Name(parent: parent, name: name)) else {
            guard parent != Replays.wingsInode else { return nil }
            // On the way to an item of a folder that has moved on. Another item may have its name by now.
            let asked = Replays.Name(parent: parent, name: name)
            if let leaving = replays.departing(at: asked) { return try departed(leaving) }
            return try namespace.lookup(parent: parent, name: name.bytes) ?? replays.behind(at: asked).map(departed)
        }
        switch shown {
        case .nothing: return nil
        case .wings:
            inodes.addLookup(Replays.wingsInode)
            return wings
        case .item(let row):
            var found = try stat.known(row)
            found.isVolatile = true
            return found
        case .departed(let row): return try departed(row)
        }
    }

    /// A removed item with its last attributes: the kernel is about to drop one of its names.
    private func departed(_ row: ItemRow) throws -> NodeAttributes {
        let living = try index.row(ino: row.ino)
        inodes.addLookup(row.ino)
        // Keep the attributes that a program with the item open has set since.
        if living?.isDeleted ?? true { inodes.withNode(row.ino) { $0.orphan = $0.orphan ?? row } }
        do {
            var found = try stat.of(living ?? row, isOrphan: living == nil)
            if row.kind != .directory { found.links = row.isLinked ? max(found.links, 1) + 1 : 1 }
            found.isVolatile = true
            return found
        } catch {
            inodes.forget(row.ino, 1)
            throw error
        }
    }

    package func attributes(of ino: UInt64) throws -> NodeAttributes {
        ino == Replays.wingsInode ? wings : try stat.of(ino)
    }

    /// mknod, mkdir, symlink and create: returns the item, which exists already.
    package func make(parent: UInt64, name: [UInt8], type: UInt32) throws -> NodeAttributes {
        let name = try ItemName.checked(name)
        let current = try current(.makeFile, .makeDirectory, .makeSymlink)
        guard case .make(let entry) = current.replay.action, Replays.Name(entry) == .init(parent: parent, name: name),
            let row = current.replay.row, let item = try calls.item(row, at: entry),
            FileMode.type(of: item.kind) == type
        else { throw Errno.ECANCELED }
        var made = try stat.known(item)
        // The kernel ignores attributes of an inode that it does not have yet, so make it ask for them.
        made.isChanging = true
        replays.markDone()
        return made
    }

    package func remove(parent: UInt64, name: [UInt8], directory: Bool) throws {
        let name = Replays.Name(parent: parent, name: try ItemName.checked(name))
        let current = try current(directory ? .removeDirectory : .removeFile)
        guard case .remove(let entry, let before) = current.replay.action, name == Replays.Name(entry) else {
            throw Errno.ECANCELED
        }
        try requireAsked(name, current)
        guard try calls.mayGo(before, from: entry) else { throw Errno.ECANCELED }
        replays.markDone()
    }

    package func rename(parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8]) throws {
        let source = Replays.Name(parent: parent, name: try ItemName.checked(name))
        let target = Replays.Name(parent: newParent, name: try ItemName.checked(newName))
        let current = try current(.move, .replace)
        let entry: ItemRow.Entry
        switch current.replay.action {
        case .move(let from, let to) where Replays.Name(from) == source: entry = to
        case .replace(let at, _) where parent == Replays.wingsInode: entry = at
        case .move(_, let to) where parent == Replays.wingsInode && current.isArrival: entry = to
        default: throw Errno.ECANCELED
        }
        guard Replays.Name(entry) == target, let row = current.replay.row, try calls.item(row, at: entry) != nil else {
            throw Errno.ECANCELED
        }
        try requireAsked(source, current)
        try requireAsked(target, current)
        replays.markDone()
    }

    package func change(of ino: UInt64) throws -> NodeAttributes {
        let current = try current(.touch)
        guard current.replay.row?.ino == ino else { throw Errno.ECANCELED }
        var found = try stat.of(ino)
        // The kernel takes this answer for the newest, even after a concurrent invalidation, so make it ask again.
        found.isChanging = true
        replays.markDone()
        return found
    }

    /// The replay in progress, if its call is of one of these kinds.
    private func current(_ kinds: ReplayCall.Kind...) throws -> Replays.Current {
        guard let current = replays.current, kinds.contains(current.call.kind) else { throw Errno.ECANCELED }
        return current
    }

    /// Throws ESTALE if the name was not looked up. The kernel does not look up names it has cached, and may have an
    /// older item there. After this error it looks the name up and tries again.
    private func requireAsked(_ name: Replays.Name, _ current: Replays.Current) throws {
        guard current.asked.contains(name) else { throw Errno.ESTALE }
    }
}

extension Replays {
    /// The folder out of which the replay process moves replacements. Its name is not UTF-8, so no item can have it.
    /// Its inode number is the last one below those of versions.
    static let wings = ItemName(stored: Array(".ubiquity-arriving".utf8) + [0xFF])
    static let wingsInode = VersionNodes.firstNumber - 1
}
