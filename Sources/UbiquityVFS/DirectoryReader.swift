internal import Synchronization
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Reads directories other than versions folders.
///
/// It looks up the entries that left directories lately (`Departures`), so that a reader continues at its place. The
/// façade calls it. It calls `Attributes` and `VisibleConflicts`.
final class DirectoryReader: Room {
    let context: FileSystemContext
    private let attributes: Attributes
    private let versions: VersionsFolder
    private let visibleConflicts: VisibleConflicts
    private let departures: Departures

    init(
        _ context: FileSystemContext, attributes: Attributes, versions: VersionsFolder,
        visibleConflicts: VisibleConflicts, departures: Departures
    ) {
        self.context = context
        self.attributes = attributes
        self.versions = versions
        self.visibleConflicts = visibleConflicts
        self.departures = departures
    }

    /// Emits the entries of a directory other than a versions folder, from `offset` until `emit` returns false. With
    /// attributes, each accepted entry counts as a lookup.
    /// - Parameter room: about how many entries fit.
    func read(
        _ ino: UInt64, offset: Int64, withAttributes: Bool, room: Int, emit: (DirectoryItem) -> Bool
    ) throws {
        let (row, isOrphan) = try context.row(ino)
        guard row.kind == .directory else { throw Errno.ENOTDIR }
        guard try emitDots(row, from: offset, isOrphan: isOrphan, emit), !isOrphan else { return }
        var after: ItemName?
        if offset <= DirectoryOffset.afterDotDot || DirectoryOffset.isOfConflict(offset) {
            guard try emitConflicts(row, from: offset, emit) else { return }
        } else {
            after = try place(in: row, offset)
        }
        let limit = max(room, Self.smallestBatch)
        while true {
            let commits = inodes.foreignCommits.load(ordering: .acquiring)
            let batch = try index.peek { try $0.children(of: row.key, after: after, limit: limit) }
            departures.forget(batch.lazy.map(\.ino), from: ino)
            let taken = try self.emit(batch, since: withAttributes ? commits : nil, emit)
            guard taken == batch.count, batch.count == limit else { return }
            after = batch.last?.entry?.name
        }
    }

    /// Smallest number of entries read from the index at once.
    private static let smallestBatch = 16

    /// - Parameter commits: `foreignCommits` before the batch was read; nil for no attributes.
    private func emit(_ batch: [ItemRow], since commits: UInt64?, _ emit: (DirectoryItem) -> Bool) throws -> Int {
        for (count, child) in batch.enumerated() {
            guard let name = child.entry?.name, let row = try index.peek({ try $0.named(child) }) else { continue }
            // Count the lookup first: once the answer has it, the kernel may forget it at any time. For an entry that
            // has another name or none by now, the kernel gets only the name.
            let found = try commits.flatMap { try attributes.known(row, since: $0) { try leading(from: child) } }
            // By the name's own number: a file may have several names in one directory.
            let item = DirectoryItem(
                name: name.bytes, offset: DirectoryOffset.after(child.ino),
                attributes: found ?? .identity(of: row.ino, row.kind), isCounted: commits == nil || found != nil)
            guard emit(item) else {
                if found != nil { inodes.forget(row.ino, 1) }
                return count
            }
        }
        return batch.count
    }

    /// The item the entry leads to now; nil if the name is gone or belongs to another item.
    private func leading(from child: ItemRow) throws -> ItemRow? {
        guard let now = try index.row(ino: child.ino), !now.isDeleted, now.entry == child.entry else { return nil }
        return try index.peek { try $0.named(now) }
    }

    /// - Returns: false if `emit` took no more.
    private func emitDots(
        _ row: ItemRow, from offset: Int64, isOrphan: Bool, _ emit: (DirectoryItem) -> Bool
    ) throws -> Bool {
        if offset < DirectoryOffset.afterDot {
            let item = DirectoryItem(
                name: [UInt8(ascii: ".")], offset: DirectoryOffset.afterDot,
                attributes: NodeAttributes.identity(of: row.ino, .directory), isCounted: false)
            guard emit(item) else { return false }
        }
        if offset < DirectoryOffset.afterDotDot {
            let parent = row.entry?.parent.inode ?? row.ino
            let item = DirectoryItem(
                name: [UInt8(ascii: "."), UInt8(ascii: ".")], offset: DirectoryOffset.afterDotDot,
                attributes: NodeAttributes.identity(of: parent, .directory), isCounted: false)
            guard emit(item) else { return false }
        }
        return true
    }

    /// The losing versions of documents in conflict come first: `rm -r` then meets them before their documents, with
    /// which they would be gone.
    /// - Returns: false if there was no room.
    private func emitConflicts(_ row: ItemRow, from offset: Int64, _ emit: (DirectoryItem) -> Bool) throws -> Bool {
        guard visibleConflicts.isOn else { return true }
        var known: VersionsListing?, first = 0
        if DirectoryOffset.isOfConflict(offset) {
            let offset = DirectoryOffset.ofListing(offset)
            known = versions.listings.listing(of: row.ino, at: offset)
            first = VersionsListing.place(of: offset)
        }
        let listing: VersionsListing
        if let known {
            listing = known
        } else {
            let entries = try visibleConflicts.entries(in: row.key).map {
                VersionsListing.Entry(name: $0.name, node: $0.node, kind: $0.document.kind)
            }
            guard !entries.isEmpty else { return true }
            listing = versions.listings.add(row.ino, entries)
        }
        for place in first..<max(first, listing.entries.count) {
            let entry = listing.entries[place]
            let item = DirectoryItem(
                name: entry.name.bytes, offset: DirectoryOffset.ofConflict(listing.offset(after: place)),
                attributes: .identity(of: versionNodes.number(of: entry.node), entry.kind), isCounted: false)
            guard emit(item) else { return false }
        }
        return true
    }

    /// The name after which an offset continues; nil for the beginning.
    private func place(in row: ItemRow, _ offset: Int64) throws -> ItemName? {
        guard offset > DirectoryOffset.afterDotDot else { return nil }
        let ino = DirectoryOffset.inode(before: offset)
        if let name = departures.name(of: ino, from: row.ino) { return name }
        if let found = try index.row(ino: ino), let entry = found.entry, entry.parent == row.key { return entry.name }
        // A remote change may be removing the entry just now. Once the writer is free, its departure has been recorded.
        try index.write(.local) { _ in }
        if let name = departures.name(of: ino, from: row.ino) { return name }
        // After some departures were forgotten, the entry may be one of those. Listing an entry twice is better than
        // omitting one.
        if departures.hasForgotten { return nil }
        // Only an offset that a program invented gets here.
        throw Errno.EINVAL
    }
}
