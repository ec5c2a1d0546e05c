internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
package import UbiquitySystem

/// Replaces the container that a mount serves, when the account of the device changes.
///
/// The session calls it: first `announceRemoval` of the old container, then `departedFiles`. Then it exchanges the file
/// systems, and calls `invalidate` of the old one and `announceArrival` of the new one. It has no state of its own. It
/// calls `Replays`, the kernel's cache, `OpenFiles` and `Attributes`.
package final class ContainerExchange: Room {
    let context: FileSystemContext
    private let replays: Replays
    private let openFiles: OpenFiles
    private let attributes: Attributes

    init(_ context: FileSystemContext, replays: Replays, openFiles: OpenFiles, attributes: Attributes) {
        self.context = context
        self.replays = replays
        self.openFiles = openFiles
        self.attributes = attributes
    }

    /// Items whose removal or arrival is replayed for programs that watch the mount. A replay takes some 100 µs. Other
    /// items only leave the kernel's cache.
    private static let replayed = 2000

    // MARK: The old container

    /// Replays the removal of all items that the kernel knows, so that watching programs see them leave.
    /// - Returns: a mark for `ReplayCalls.isOver`.
    package func announceRemoval() -> UInt64 {
        replays.beginLeaving()
        let rows = knownRows(limit: Self.replayed)
        replays.adding {
            for row in rows {
                _ = replays.add(IndexEvent(origin: .remote, kind: .removed, before: row, after: nil))
            }
        }
        return replays.mark
    }

    /// The files that programs have open now. They stay readable.
    package func departedFiles() -> DepartedFiles {
        var files = [UInt64: DepartedFiles.File](), found = [UInt64: NodeAttributes]()
        for (handle, file) in openFiles.entries {
            let whole = file.node.state.withLock { $0.whole?.file }
            var partial: PartialContent?
            if case .content(let content) = file.partial { partial = content }
            files[handle] = DepartedFiles.File(whole: whole, partial: partial)
            if found[file.node.ino] == nil { found[file.node.ino] = try? attributes.of(file.node.ino) }
        }
        return DepartedFiles(files, found)
    }

    /// Empties the kernel's cache of this container. Call it when the kernel's requests reach the new one.
    package func invalidate() {
        for name in inodes.withNode(1, { $0.absences }) ?? [] { kernel.invalidateEntry(parent: 1, name: name) }
        for row in knownRows(limit: .max) {
            if let entry = row.entry { kernel.invalidateEntry(parent: entry.parent.inode, name: entry.name) }
            kernel.invalidateAttributes(ino: row.ino)
            if row.kind == .directory { kernel.invalidateListing(directory: row.ino) }
        }
        kernel.invalidateListing(directory: 1)
        kernel.invalidateAttributes(ino: 1)
    }

    /// Rows of the inodes that the kernel knows, without the top folder. An item that cannot be read is left out: the
    /// kernel forgets it after its time.
    private func knownRows(limit: Int) -> [ItemRow] {
        var rows = [ItemRow]()
        for ino in inodes.known where ino != 1 && rows.count < limit {
            if let row = try? index.row(ino: ino), !row.isDeleted { rows.append(row) }
        }
        return rows
    }

    // MARK: The new container

    /// Replays the arrival of the items in the top folder, so that watching programs see them.
    package func announceArrival() {
        let rows = (try? index.read { try $0.children(of: .root, after: nil, limit: Self.replayed) }) ?? []
        replays.adding {
            for row in rows {
                _ = replays.add(IndexEvent(origin: .remote, kind: .added, before: nil, after: row))
            }
        }
    }
}

/// Files of a container that its mount no longer serves, as long as programs have them open.
///
/// A file on this device stays readable. All other calls fail with ESTALE.
package final class DepartedFiles: Sendable {
    struct File: Sendable {
        var whole: FileDescriptor?
        var partial: PartialContent?
    }

    private let files: Lock<[UInt64: File]>
    private let attributes: [UInt64: NodeAttributes]

    init(_ files: [UInt64: File], _ attributes: [UInt64: NodeAttributes]) {
        self.files = Lock(files)
        self.attributes = attributes
    }

    /// The last attributes of a file that was open when its container left.
    package func attributes(of ino: UInt64) throws(Errno) -> NodeAttributes {
        guard let found = attributes[ino] else { throw .ESTALE }
        return found
    }

    package func read(_ handle: UInt64, offset: Int64, length: Int) throws(Errno) -> FileData {
        guard let file = files.withLock({ $0[handle] }) else { throw .ESTALE }
        if let whole = file.whole { return FileData(descriptor: whole, offset: offset, length: length) }
        guard let partial = file.partial, offset >= 0 else { throw .ESTALE }
        let end = min(offset &+ Int64(length), partial.size), start = min(offset, end)
        guard start == end || partial.contains(start..<end) else { throw .ESTALE }
        return FileData(descriptor: partial.file, offset: offset, length: Int(end - start))
    }

    /// The kernel has closed the handle.
    package func release(_ handle: UInt64) { files.withLock { _ = $0.removeValue(forKey: handle) } }

    package var isEmpty: Bool { files.withLock { $0.isEmpty } }
}
