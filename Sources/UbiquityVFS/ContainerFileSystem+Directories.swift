internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Reading directories.
extension ContainerFileSystem {
    /// The kernel may keep a listing it has if nothing changed since it began to read that.
    package func openDirectory(_ ino: UInt64) throws -> OpenedFile {
        guard try row(ino).row.kind == .directory else { throw Errno.ENOTDIR }
        openDirectories.open(ino)
        let keepsCache = inodes.withNode(ino) { node in
            defer { node.cachedListing = node.listing }
            return node.cachedListing == node.listing
        }
        return OpenedFile(handle: directories.add(OpenDirectory(ino: ino)), keepsCache: keepsCache ?? false)
    }

    package func releaseDirectory(_ handle: UInt64) {
        guard let directory = directories.remove(handle) else { return }
        openDirectories.close(directory.ino)
    }

    /// Gives entries from `offset` on until `emit` has no room. With attributes, each that is taken counts as a lookup.
    /// - Parameter room: for about how many entries there is room.
    package func readDirectory(
        _ handle: UInt64, offset: Int64, withAttributes: Bool, room: Int, emit: (DirectoryItem) -> Bool
    ) throws {
        let directory = try directories.object(handle)
        if let entries = directory.versions { return readVersions(directory, entries, offset: offset, emit: emit) }
        let (row, isOrphan) = try row(directory.ino)
        guard try emitDots(row, from: offset, isOrphan: isOrphan, emit), !isOrphan else { return }
        var after = try place(in: directory, row, offset)
        if offset <= OpenDirectory.afterDotDot { directory.recent.withLock { $0 = [:] } }
        let limit = max(room, Self.smallestBatch)
        while true {
            let batch = try index.peek { try $0.children(of: row.key, after: after, limit: limit) }
            let taken = try self.emit(batch, directory, withAttributes: withAttributes, emit)
            guard taken == batch.count, batch.count == limit else { return }
            after = batch.last?.entry?.name
        }
    }

    /// Entries asked of the index at once, at least.
    private static let smallestBatch = 16
    /// Entries whose places a handle keeps.
    private static let recentLimit = 4096

    private func emit(
        _ batch: [ItemRow], _ directory: OpenDirectory, withAttributes: Bool, _ emit: (DirectoryItem) -> Bool
    ) throws -> Int {
        var places = [(Int64, ItemName)]()
        defer {
            directory.recent.withLock { recent in
                if recent.count > Self.recentLimit { recent = [:] }
                for (offset, name) in places { recent[offset] = name }
            }
        }
        for child in batch {
            guard let name = child.entry?.name, let row = try index.peek({ try $0.named(child) }) else { continue }
            // By the name's own number: a file may have several names in one directory.
            let item = DirectoryItem(
                name: name.bytes, offset: OpenDirectory.offset(of: child.ino),
                attributes: withAttributes ? try attributes(of: row) : Self.identity(of: row.ino, row.kind),
                isCounted: true)
            // Counted first: once it is in the answer, the kernel may forget it at any time.
            if withAttributes { inodes.addLookup(row.ino) }
            guard emit(item) else {
                if withAttributes { inodes.forget(row.ino, 1) }
                return places.count
            }
            places.append((item.offset, name))
        }
        return batch.count
    }

    /// - Returns: false if there was no room.
    private func emitDots(
        _ row: ItemRow, from offset: Int64, isOrphan: Bool, _ emit: (DirectoryItem) -> Bool
    ) throws -> Bool {
        if offset < OpenDirectory.afterDot {
            let item = DirectoryItem(
                name: [UInt8(ascii: ".")], offset: OpenDirectory.afterDot,
                attributes: Self.identity(of: row.ino, .directory), isCounted: false)
            guard emit(item) else { return false }
        }
        if offset < OpenDirectory.afterDotDot {
            let parent = row.entry?.parent.inode ?? row.ino
            let item = DirectoryItem(
                name: [UInt8(ascii: "."), UInt8(ascii: ".")], offset: OpenDirectory.afterDotDot,
                attributes: Self.identity(of: parent, .directory), isCounted: false)
            guard emit(item) else { return false }
        }
        return true
    }

    /// Inode number and type, all that a plain listing has.
    static func identity(of ino: UInt64, _ kind: ItemKind) -> NodeAttributes {
        NodeAttributes(
            ino: ino, mode: FileMode.type(of: kind), links: 1, uid: 0, gid: 0, size: 0, blocks: 0, accessedAt: .zero,
            modifiedAt: .zero, changedAt: .zero)
    }

    /// The name after which an offset goes on; nil for the beginning.
    private func place(in directory: OpenDirectory, _ row: ItemRow, _ offset: Int64) throws -> ItemName? {
        guard offset > OpenDirectory.afterDotDot else { return nil }
        if let name = directory.recent.withLock({ $0[offset] }) { return name }
        let ino = OpenDirectory.inode(at: offset)
        if let name = openDirectories.departed(from: directory.ino, ino: ino) { return name }
        if let found = try index.row(ino: ino), let entry = found.entry, entry.parent == row.key { return entry.name }
        // Only a program that made the offset up gets here.
        throw Errno.EINVAL
    }
}
