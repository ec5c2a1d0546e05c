internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Sets attributes: mode, owner, times and size.
///
/// It has no state of its own. The façade calls it. It calls `Truncation` for a size, and `DelayedCloses` before a
/// change.
final class AttributeSetter: Room {
    let context: FileSystemContext
    private let attributes: Attributes
    private let truncation: Truncation
    private let closes: DelayedCloses
    private let openFiles: OpenFiles

    init(
        _ context: FileSystemContext, attributes: Attributes, truncation: Truncation, closes: DelayedCloses,
        openFiles: OpenFiles
    ) {
        self.context = context
        self.attributes = attributes
        self.truncation = truncation
        self.closes = closes
        self.openFiles = openFiles
    }

    /// - Parameter handle: the open file's handle, if the change has one (ftruncate).
    func set(
        _ ino: UInt64, _ changes: AttributeChanges, handle: UInt64?, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        guard let size = changes.size else { return .now(try setMetadata(of: ino, changes, caller)) }
        return try truncation.truncate(ino, to: size, handle: handle, caller).map { [self] in
            try setMetadata(of: ino, changes, caller)
        }
    }

    private func setMetadata(of ino: UInt64, _ changes: AttributeChanges, _ caller: Caller) throws -> NodeAttributes {
        // Earlier writes must be recorded before this change, under their own author.
        closes.finish(of: ino)
        let (row, isOrphan) = try context.row(ino)
        if isOrphan { try context.requireOpen(row) }
        if changes.dropsPrivileges, !mayDropPrivileges(of: row, caller) { throw Errno.EPERM }
        // One time for both: a program that sets both to the present expects them to be equal.
        let now = context.parts.timekeeper.now()
        let change = attributeChange(row, changes, caller, now)
        recordAccess(ino, changes, now)
        if let modified = change.modifiedAt, row.kind == .file { try setBackingTime(ino, modified) }
        // Setting only the access time also changes the status time.
        let isChange = change.mode != nil || change.uid != nil || change.gid != nil || change.modifiedAt != nil
        guard isChange || changes.accessedAt != nil || changes.dropsPrivileges else {
            return try attributes.of(row, isOrphan: isOrphan)
        }
        if let mode = change.mode, FileMode.withoutPrivileges(mode) != nil {
            openNodes.node(ino)?.state.withLock { $0.hasPrivileges = true }
        }
        guard isOrphan else { return try attributes.of(try index.setAttributes(ino: ino, change, at: now)) }
        let changed = row.applying(change, now: now)
        inodes.withNode(ino) { $0.orphan = changed }
        return try attributes.of(changed, isOrphan: true)
    }

    /// Whether the caller may drop privileges: the owner may, and so may a program about to write. The kernel does not
    /// say which of the two calls.
    private func mayDropPrivileges(of row: ItemRow, _ caller: Caller) -> Bool {
        if caller.uid == 0 || caller.uid == row.uid { return true }
        if row.kind == .directory || FileMode.withoutPrivileges(row.mode) == nil { return true }
        return openFiles.hasWriter(row.ino)
    }

    private func attributeChange(
        _ row: ItemRow, _ changes: AttributeChanges, _ caller: Caller, _ now: Timestamp
    ) -> AttributeChange {
        var change = AttributeChange(mode: changes.mode, uid: changes.uid, gid: changes.gid)
        switch changes.modifiedAt {
        case .now: change.modifiedAt = now
        case .at(let time): change.modifiedAt = time
        case nil: break
        }
        // A new owner, and a truncation by an ordinary user, clear the set-user-id and set-group-id bits. With
        // HANDLE_KILLPRIV_V2 the kernel leaves that to the file system.
        let givesAway = changes.uid != nil || changes.gid != nil || changes.dropsPrivileges
            || (changes.size != nil && caller.uid != 0)
        if changes.mode == nil, givesAway, row.kind != .directory, let cleared = FileMode.withoutPrivileges(row.mode) {
            change.mode = cleared
        }
        return change
    }

    /// Records an explicitly set access time while the kernel knows the file. Reads do not change the access time, and
    /// it is not stored.
    private func recordAccess(_ ino: UInt64, _ changes: AttributeChanges, _ now: Timestamp) {
        guard let time = changes.accessedAt else { return }
        let accessed: Timestamp
        switch time {
        case .now: accessed = now
        case .at(let time): accessed = time
        }
        inodes.withNode(ino) { $0.accessedAt = accessed }
    }

    /// Sets the modification time of an open file's backing file too, because `stat` reads it there. This is not a
    /// change of the content.
    private func setBackingTime(_ ino: UInt64, _ time: Timestamp) throws {
        guard let node = openNodes.node(ino) else { return }
        try node.state.withLock { state throws(Errno) in
            guard let file = state.whole?.file else { return }
            // Writes that bypass this process may happen between the two looks; then the file counts as changed.
            let seesWrites = state.service.backing == nil && !state.mayBeMapped
            let stamp = OpenNode.Stamp(try file.status())
            let isUnchanged = seesWrites && state.stamp == stamp
            try file.setTimes(accessed: nil, modified: time)
            if isUnchanged { state.stamp = OpenNode.Stamp(try file.status()) }
        }
    }
}
