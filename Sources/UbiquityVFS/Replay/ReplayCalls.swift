internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Chooses the changes to replay and the system calls that replay them, so that programs that watch the mount get
/// inotify events of remote changes.
///
/// It holds the folders that were just made. The replayer in `UbiquityFUSE` calls it. It calls `Replays`, the index,
/// and `KernelNews` for changes that are not replayed.
package final class ReplayCalls: Room {
    let context: FileSystemContext
    private let replays: Replays
    private let news: KernelNews
    private let waitingCalls: WaitingCalls
    /// Folders that replays created most recently, and when.
    private let newFolders = Lock<[ItemKey: Timestamp]>([:])

    init(_ context: FileSystemContext, replays: Replays, news: KernelNews, waitingCalls: WaitingCalls) {
        self.context = context
        self.replays = replays
        self.news = news
        self.waitingCalls = waitingCalls
    }

    /// A mark of all replays up to now: they have been announced once `isOver` returns true for it. Includes the
    /// commit in progress, which readers of the index may have seen.
    package var mark: UInt64 {
        index.awaitPublishing()
        return replays.mark
    }

    package func isOver(_ mark: UInt64) -> Bool { replays.isOver(mark) }

    /// Whether the process replays changes.
    @inline(__always)
    package func isReplay(_ caller: Caller) -> Bool { replays.isOwn(caller.pid) }

    // MARK: For the replayer

    /// Starts collecting changes for replay.
    package func begin() { replays.turnOn() }

    /// Sets the process whose requests are answered as replays. Set it before its first call; reset it (0) when it can
    /// send no further request.
    package func setProcess(_ id: Int32) { replays.setProcess(id) }

    /// Recognizes the replay process of the container that the mount served before. Its late calls must not change
    /// anything here.
    package func adoptProcess(of former: ReplayCalls) { replays.adoptProcess(of: former.replays) }

    /// Waits for the next call to replay. Follow each with `finish`. Nil when the queue is closed.
    package func next() -> ReplayCall? {
        while let waiting = replays.next() {
            let replay = replays.fromShown(waiting)
            restAfterMaking(replay)
            do {
                if let current = try prepare(replay) {
                    replays.begin(current)
                    return current.call
                }
                logger.debug("a change cannot be replayed", metadata: ["kind": "\(replay.event.kind)"])
            } catch {
                logger.debug("a change is not replayed", metadata: ["error": "\(error)"])
            }
            _ = replays.finish(replay)
            news.tellKernelPlainly(replay.event)
        }
        return nil
    }

    /// - Parameter isDone: whether the call succeeded.
    package func finish(_ isDone: Bool) {
        guard let current = replays.current else { return }
        let replay = current.replay
        // The kernel answers some calls itself and notifies no program, such as renaming a file to another of its own
        // names. After a replayed arrival the old name still exists for the kernel.
        guard replays.finish(replay), isDone, !current.isArrival else {
            recordIfMovedOn(current)
            return news.tellKernelPlainly(replay.event)
        }
        switch replay.action {
        case .make(let entry):
            inodes.withNode(entry.parent.inode) { _ = $0.absences.remove(entry.name) }
            recordMade(current.replay.row)
        case .move(_, let entry):
            inodes.withNode(entry.parent.inode) { _ = $0.absences.remove(entry.name) }
            if let row = replay.row, inodes.isKnown(row.ino) { kernel.invalidateAttributes(ino: row.ino) }
        case .remove, .replace, .touch: break
        }
    }

    /// Records the move if it failed because the item just moved on.
    private func recordIfMovedOn(_ current: Replays.Current) {
        guard case .move(let from, let to) = current.replay.action, !current.isArrival, let row = current.replay.row,
            (try? item(row, at: to)) == nil
        else { return }
        replays.addBehind(row, shown: from, entry: to)
    }

    /// Drops the waiting replays when the one in progress takes too long; the kernel is invalidated instead.
    package func drop() {
        for replay in replays.removeAll() { news.tellKernelPlainly(replay.event) }
    }

    package func end() {
        replays.close()
        replays.removeAll().forEach { news.tellKernelPlainly($0.event) }
    }

    /// Runs `body` while no replay uses the mount.
    package func paused<R, E: Error>(_ body: () throws(E) -> R) throws(E) -> R {
        try replays.paused(atMost: Self.pauseLimit, body)
    }

    /// A replay takes some 100 µs; one that takes this long hangs.
    private static let pauseLimit: Duration = .seconds(1)

    // MARK: Selection

    /// Waits until a program that watches the tree has had time to watch a new folder. Skips the wait while many
    /// replays are queued, because those concern other items too.
    private func restAfterMaking(_ replay: Replay) {
        guard replay.isMaking, replays.isShort, let parent = replay.row?.entry?.parent,
            let made = newFolders.withLock({ $0[parent] })
        else { return }
        let age = Duration.nanoseconds(context.parts.timekeeper.now().nanoseconds &- made.nanoseconds)
        if age >= .zero, age < Self.timeToWatch { replays.rest(for: Self.timeToWatch - age) }
    }

    private func recordMade(_ row: ItemRow?) {
        guard let row, row.kind == .directory else { return }
        newFolders.withLock { folders in
            if folders.count >= Replays.maximumInNewFolders { folders = [:] }
            folders[row.key] = context.parts.timekeeper.now()
        }
    }

    /// A watching program gets the event and adds its watch within some 100 µs, on a busy machine within milliseconds.
    private static let timeToWatch = Duration.milliseconds(10)

    // MARK: Preparation

    /// The call for a replay; nil if the index has moved past the change. Then a later replay announces the newer
    /// state.
    private func prepare(_ replay: Replay) throws -> Replays.Current? {
        guard let row = replay.row else { return nil }
        switch replay.action {
        case .make(let entry): return try prepareMaking(replay, row, entry)
        case .remove(let entry, let before): return try prepareRemoval(replay, before, entry)
        case .move(let from, let to): return try prepareMove(replay, row, from, to)
        case .replace(let entry, let old): return try prepareReplacement(replay, row, old, entry)
        case .touch(let entry): return try prepareTouch(replay, row, entry)
        }
    }

    private func prepareMaking(_ replay: Replay, _ row: ItemRow, _ entry: ItemRow.Entry) throws -> Replays.Current? {
        guard let item = try item(row, at: entry), let place = try place(entry) else { return nil }
        var call: ReplayCall
        switch item.kind {
        case .file: call = ReplayCall(.makeFile, place)
        case .directory: call = ReplayCall(.makeDirectory, place)
        case .symlink:
            call = ReplayCall(.makeSymlink, place)
            call.text = item.linkTarget
        case .hardLink, .fifo, .socket, .characterDevice, .blockDevice: return nil
        }
        return Replays.Current(replay: replay, call: call, shown: [Replays.Name(entry): .nothing])
    }

    private func prepareRemoval(
        _ replay: Replay, _ before: ItemRow, _ entry: ItemRow.Entry
    ) throws -> Replays.Current? {
        guard let item = try standing(for: before), try mayGo(before, from: entry), isAtRest(item.ino),
            let place = try place(entry)
        else { return nil }
        let kind = item.kind == .directory ? ReplayCall.Kind.removeDirectory : .removeFile
        return Replays.Current(
            replay: replay, call: ReplayCall(kind, place), shown: [Replays.Name(entry): .departed(item)])
    }

    private func prepareMove(
        _ replay: Replay, _ row: ItemRow, _ from: ItemRow.Entry, _ to: ItemRow.Entry
    ) throws -> Replays.Current? {
        guard let item = try item(row, at: to) else {
            replays.addBehind(row, shown: from, entry: to)
            return nil
        }
        guard from != to, isAtRest(item.ino), let target = try self.place(to) else { return nil }
        // The folder that contained the item is gone. Its deletion has been announced, with all its contents.
        guard let place = try place(from) else { return try arrival(replay, item, at: to, target, shownAs: .nothing) }
        // Another item has taken the old name, as when names rotate. Announce the arrivals at each name. A folder has
        // only one name for the kernel, so it cannot move through a second one.
        guard try isFree(from) else {
            return item.kind == .directory ? nil : try arrival(replay, item, at: to, target, shownAs: .nothing)
        }
        return Replays.Current(
            replay: replay, call: ReplayCall(.move, place, target: target),
            shown: [Replays.Name(from): .item(item), Replays.Name(to): .nothing])
    }

    private func prepareReplacement(
        _ replay: Replay, _ row: ItemRow, _ old: ItemRow, _ entry: ItemRow.Entry
    ) throws -> Replays.Current? {
        guard let item = try item(row, at: entry), item.ino != old.ino, isAtRest(item.ino), isAtRest(old.ino),
            let target = try place(entry)
        else { return nil }
        return try arrival(replay, item, at: entry, target, shownAs: .departed(old))
    }

    /// Replays a move out of the hidden folder to the item's name.
    /// - Parameter there: what the kernel finds at the name before the call.
    private func arrival(
        _ replay: Replay, _ item: ItemRow, at entry: ItemRow.Entry, _ target: ReplayCall.Place,
        shownAs there: Replays.Shown
    ) throws -> Replays.Current {
        let name = try ItemName("\(item.ino)")
        let place = ReplayCall.Place(folder: Replays.wings.bytes, inode: Replays.wingsInode, name: name.bytes)
        return Replays.Current(
            replay: replay, call: ReplayCall(.replace, place, target: target),
            shown: [
                Replays.Name(parent: ItemKey.root.inode, name: Replays.wings): .wings,
                Replays.Name(parent: Replays.wingsInode, name: name): .item(item),
                Replays.Name(entry): there,
            ])
    }

    private func prepareTouch(_ replay: Replay, _ row: ItemRow, _ entry: ItemRow.Entry) throws -> Replays.Current? {
        guard let item = try item(row, at: entry), item.ino == row.ino, let place = try place(entry) else { return nil }
        var call = ReplayCall(.touch, place)
        call.modifiedAt = item.modifiedAt
        return Replays.Current(replay: replay, call: call, shown: [:])
    }

    // MARK: Lookup

    /// The item at the name, if it is the row's item or the file its link leads to.
    func item(_ row: ItemRow, at entry: ItemRow.Entry) throws -> ItemRow? {
        guard let item = try index.child(of: entry.parent, named: entry.name) else { return nil }
        return item.id == row.linkedID || item.key == row.key ? item : nil
    }

    /// The item to whose inode a removed name led; nil if no longer known.
    private func standing(for row: ItemRow) throws -> ItemRow? {
        guard let id = row.linkedID else { return row }
        return try index.peek { try $0.row(id: id) }
    }

    /// Whether the kernel can have only the departed item at the name.
    private func isFree(_ entry: ItemRow.Entry) throws -> Bool {
        guard let other = try index.child(of: entry.parent, named: entry.name) else { return true }
        return !inodes.isKnown(other.ino)
    }

    /// Whether a removal can be replayed. The name must be free, or its new item must still be elsewhere for the
    /// kernel, with its move next in the queue.
    ///
    /// A folder must be deleted for good: the kernel lets no program create or list anything in a folder it has
    /// removed, also when it appears at another name. A folder that waits for its place loses its name too.
    func mayGo(_ before: ItemRow, from entry: ItemRow.Entry) throws -> Bool {
        if replays.isLeaving { return true }
        let isGone = try index.row(key: before.key)?.isDeleted ?? true
        if before.kind == .directory, !isGone { return false }
        guard let other = try index.child(of: entry.parent, named: entry.name), inodes.isKnown(other.ino) else {
            return true
        }
        return isGone && replays.isMoving(other.key)
    }

    /// Whether no program's call holds the kernel's lock of the file while it waits for a download. A call on the
    /// file's name would wait for that lock with the folder locked.
    private func isAtRest(_ ino: UInt64) -> Bool { !waitingCalls.contains(ino) }

    private func place(_ entry: ItemRow.Entry) throws -> ReplayCall.Place? {
        guard let folder = try path(of: entry.parent) ?? laterPath(of: entry.parent) else { return nil }
        return ReplayCall.Place(folder: folder, inode: entry.parent.inode, name: entry.name.bytes)
    }

    /// The path of a folder after the commit in progress. A folder missing from the index may have left just now; once
    /// the writer is free, its replay is queued.
    private func laterPath(of folder: ItemKey) throws -> [UInt8]? {
        index.awaitPublishing()
        return try path(of: folder)
    }

    /// The folder's path as the kernel has it while other replays wait.
    private func path(of folder: ItemKey) throws -> [UInt8]? {
        var key = folder, names = [[UInt8]](), length = 0
        while key != .root {
            guard let entry = try replays.entry(of: key) ?? index.row(key: key)?.entry else { return nil }
            names.append(entry.name.bytes)
            length += entry.name.bytes.count + 1
            guard length <= Self.longestPath, names.count <= Limits.maximumDepth else { return nil }
            key = entry.parent
        }
        return Array(names.reversed().joined(separator: [UInt8(ascii: "/")]))
    }

    /// In bytes. The kernel allows 4096, including the path of the mount.
    private static let longestPath = 3072
}

extension Replays.Name {
    init(_ entry: ItemRow.Entry) { self.init(parent: entry.parent.inode, name: entry.name) }
}
