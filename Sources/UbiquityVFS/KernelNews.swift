internal import Synchronization
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Turns each commit's events into invalidations for the kernel and wake-ups for waiting calls.
///
/// It holds no state of its own; it keeps `InodeTable`, `Departures`, `Replays` and the ignore files up to date. The
/// index calls it on the committing thread, in order, with its writer held. So the events are only enqueued here. It
/// calls nothing that takes a lock other than a leaf.
final class KernelNews: Room {
    let context: FileSystemContext
    private let departures: Departures
    private let completions: CompletionWaiters
    private let ignoreFiles: IgnoreFiles
    private let visibleConflicts: VisibleConflicts
    private let service: FileService
    private let replays: Replays

    init(
        _ context: FileSystemContext, departures: Departures, completions: CompletionWaiters,
        ignoreFiles: IgnoreFiles, visibleConflicts: VisibleConflicts, service: FileService, replays: Replays
    ) {
        self.context = context
        self.departures = departures
        self.completions = completions
        self.ignoreFiles = ignoreFiles
        self.visibleConflicts = visibleConflicts
        self.service = service
        self.replays = replays
    }

    func observe(_ events: [IndexEvent]) {
        // The usual case, on every program's path: no local change is replayed.
        guard events.contains(where: { $0.origin != .local }) else { return update(events) }
        // Count first, then ask what the kernel knows. A lookup that finds this counter unchanged has made its inode
        // known in time for all invalidations from here on.
        inodes.foreignCommits.wrappingAdd(1, ordering: .acquiringAndReleasing)
        replays.adding { update(events) }
    }

    private func update(_ events: [IndexEvent]) {
        for event in events {
            ignoreFiles.observe(event)
            // A folder in which a program has changed an entry, as nearly every change does: no step here concerns it.
            if event.kind == .attributes, event.origin == .local, event.after?.kind == .directory { continue }
            updateConflicts(event)
            updateStructure(event)
            updateOrphans(event)
            if let before = event.before, before.content != event.after?.content || before.ino != event.after?.ino {
                service.forgetIdle(before.ino)
            }
            // The kernel knows a program's change through the mount from the answer.
            let isOtherName = event.kind == .replaced && event.before?.kind == .hardLink
            if event.origin != .local || isOtherName {
                tellKernel(event)
            } else if event.kind == .moved || event.kind == .removed, let key = event.before?.key {
                replays.forgetBehind(key)
            }
            if let before = event.before, Self.endsWaits(event, before) { completions.wake(before.ino) }
        }
    }

    /// Whether waits for the inode's content end: the content is complete, or will not come.
    private static func endsWaits(_ event: IndexEvent, _ before: ItemRow) -> Bool {
        switch event.kind {
        case .content, .replaced, .removed: true
        case .added, .moved, .attributes, .versions: before.content != event.after?.content
        }
    }

    // MARK: State of directories

    private func updateStructure(_ event: IndexEvent) {
        guard event.before?.entry != event.after?.entry || event.kind == .replaced else { return }
        let isDirectory = (event.after ?? event.before)?.kind == .directory
        if let before = event.before, let entry = before.entry {
            updateListing(entry.parent, countChanges: isDirectory)
            if inodes.isKnown(entry.parent.inode) {
                departures.add(entry.name, of: before.ino, from: entry.parent.inode)
            }
        }
        if let entry = event.after?.entry {
            updateListing(entry.parent, countChanges: isDirectory)
            if event.origin == .local { inodes.withNode(entry.parent.inode) { _ = $0.absences.remove(entry.name) } }
        }
    }

    /// A conflict that begins or ends adds or removes an entry beside its document. The kernel looks up the entry's
    /// name each time, but it keeps the listing.
    private func updateConflicts(_ event: IndexEvent) {
        guard event.versionsChange == .conflicts, visibleConflicts.isOn, let folder = event.after?.entry?.parent.inode,
            inodes.isKnown(folder)
        else { return }
        kernel.invalidateListing(directory: folder)
    }

    private func updateListing(_ directory: ItemKey, countChanges: Bool) {
        inodes.withNode(directory.inode) { node in
            node.listing += 1
            if countChanges { node.directoryCount = nil }
        }
    }

    /// Records the row of an inode that leaves the tree, for programs that have it open; drops it when the inode
    /// returns. An item removed by a program gets no entry: it can be opened by other ways than its name
    /// (`openOrphan`).
    private func updateOrphans(_ event: IndexEvent) {
        if var orphan = event.before, orphan.ino != event.after?.ino {
            let isOver = event.kind == .removed || event.kind == .replaced
            if isOver, event.origin == .local {
                orphan.entry = nil
                if inodes.isKnown(orphan.ino) {
                    orphan.changedAt = max(orphan.changedAt, context.parts.timekeeper.now())
                }
            }
            inodes.withNode(orphan.ino) { [orphan] in $0.orphan = orphan }
        }
        if let after = event.after, event.before?.ino != after.ino || event.before?.entry == nil {
            inodes.withNode(after.ino) { $0.orphan = nil }
        }
    }

    // MARK: Invalidation

    /// Replays the change if a program may watch the item; invalidates the kernel's cache otherwise.
    private func tellKernel(_ event: IndexEvent) {
        if mayBeSeen(event) ? replays.add(event) : mayBeSeenNext(event) && replays.addInNewFolder(event) { return }
        if let key = event.before?.key { replays.forgetBehind(key) }
        tellKernelPlainly(event)
    }

    /// Whether a program may watch the item. The kernel keeps the inode of a watched folder or file; for a watched file
    /// it need not keep the inode of the folder.
    private func mayBeSeen(_ event: IndexEvent) -> Bool {
        guard event.origin != .local else { return false }
        let isKnown = [event.before, event.after].contains { row in
            guard let row, let parent = row.entry?.parent else { return false }
            return inodes.isKnown(parent.inode) || inodes.isKnown(row.ino)
        }
        return isKnown || (event.before?.key).map(replays.isMoving) ?? false
    }

    /// Whether a program may watch the item soon: a program that watches a tree adds a watch for each new folder it
    /// sees.
    private func mayBeSeenNext(_ event: IndexEvent) -> Bool { event.origin != .local && event.kind == .added }

    /// Invalidates the kernel's cache; watching programs get no event.
    func tellKernelPlainly(_ event: IndexEvent) {
        switch event.kind {
        case .added:
            if let after = event.after { appeared(after) }
        case .removed:
            if let before = event.before { departed(before) }
        case .moved:
            if let before = event.before, let after = event.after { moved(before, after) }
        case .attributes, .content:
            if let before = event.before, let after = event.after { changed(before, after) }
        // The kernel treats listings of version folders as outdated at each lookup.
        case .versions: break
        case .replaced:
            if let before = event.before, let after = event.after { replaced(before, after) }
        }
    }

    private func appeared(_ row: ItemRow) {
        guard let entry = row.entry, inodes.isKnown(entry.parent.inode) else { return }
        let wasAbsent = inodes.withNode(entry.parent.inode) { $0.absences.remove(entry.name) != nil } ?? false
        if wasAbsent { kernel.invalidateEntry(parent: entry.parent.inode, name: entry.name) }
        kernel.invalidateListing(directory: entry.parent.inode)
    }

    private func departed(_ row: ItemRow) {
        guard let entry = row.entry, inodes.isKnown(entry.parent.inode) else { return }
        if mayBeKnown(row) { kernel.invalidateEntry(parent: entry.parent.inode, name: entry.name) }
        kernel.invalidateListing(directory: entry.parent.inode)
    }

    /// Whether the kernel may have looked up its name. A hard link leads to another inode, which is not known here.
    private func mayBeKnown(_ row: ItemRow) -> Bool { row.kind == .hardLink || inodes.isKnown(row.ino) }

    private func moved(_ before: ItemRow, _ after: ItemRow) {
        if let old = before.entry, inodes.isKnown(old.parent.inode) {
            if mayBeKnown(before) { kernel.invalidateEntry(parent: old.parent.inode, name: old.name) }
            kernel.invalidateListing(directory: old.parent.inode)
        }
        appeared(after)
        if inodes.isKnown(after.ino) { kernel.invalidateAttributes(ino: after.ino) }
    }

    private func changed(_ before: ItemRow, _ after: ItemRow) {
        // An evicted or damaged content must be downloaded again on the next read, even if the kernel still has its
        // pages.
        let isEvicted = before.content != nil && after.content == nil
            || before.contentState == .complete && after.contentState != .complete
        let isSame = before.version == after.version || (before.content == after.content && before.content != nil)
        let keepsBytes = isSame && !isEvicted
        let isKnown = inodes.withNode(after.ino) { node in
            if !keepsBytes { node.pages = nil }
            return true
        }
        if isKnown ?? false, Self.looksDifferent(before, after) { kernel.invalidateAttributes(ino: after.ino) }
    }

    /// Whether stat(2) or readlink(2) would answer differently.
    private static func looksDifferent(_ before: ItemRow, _ after: ItemRow) -> Bool {
        before.mode != after.mode || before.uid != after.uid || before.gid != after.gid || before.size != after.size
            || before.modifiedAt != after.modifiedAt || before.changedAt != after.changedAt
            || before.linkTarget != after.linkTarget || before.contentState != after.contentState
    }

    /// Invalidates a name that leads to another inode from now on. Open handles keep the old inode.
    private func replaced(_ before: ItemRow, _ after: ItemRow) {
        guard before.ino != after.ino || before.kind == .hardLink else { return changed(before, after) }
        departed(before)
    }
}

extension ItemKey {
    /// The inode number of the directory with this key; see `ContainerFileSystem`.
    var inode: UInt64 { UInt64(rawValue) }
}
