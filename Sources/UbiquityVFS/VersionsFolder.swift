internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The hidden `.versions` folder of each directory. It has a folder for each file with other versions, and in that a
/// file for each version, which downloads when it is read. Nothing can be created in it.
///
/// It holds the names and listings that programs have seen. The façade and `Namespace` call it; `VersionDecisions`
/// handles removals and moves. It calls `PackageVersions` and `OpenFiles`, and asks the `VersionSource`.
final class VersionsFolder: Room {
    let context: FileSystemContext
    let packages: PackageVersions
    private let openFiles: OpenFiles
    let names = VersionNames()
    let listings = VersionListings()
    let emptied = EmptiedVersions()

    init(_ context: FileSystemContext, packages: PackageVersions, openFiles: OpenFiles) {
        self.context = context
        self.packages = packages
        self.openFiles = openFiles
    }

    // MARK: Names

    /// The item of that name; nil if there is none. May have to ask the cloud for versions. The kernel counts one
    /// lookup of the returned inode.
    /// - Parameter caller: nil if unknown.
    func lookup(_ node: VersionNodes.Node, name: [UInt8], caller: Caller?) throws -> Answer<NodeAttributes?> {
        switch node {
        case .folder(let directory):
            guard let row = try index.child(of: directory, named: try ItemName.checked(name)),
                try hasVersions(row) || hasJustEmptied(row, caller)
            else { return .now(nil) }
            return .now(try known(.file(row.key)))
        case .file(let key):
            let name = try ItemName.checked(name)
            return .later { [self] in
                guard let version = try await version(named: name, of: key) else { return nil }
                return try known(.version(version.id, of: key), version)
            }
        case .version, .member:
            let name = try ItemName.checked(name)
            return .later { [self] in
                guard let found = try await packages.child(name, of: node) else { return nil }
                return try known(found.node, nil, found.member)
            }
        }
    }
    /// `.versions` in a directory.
    func folder(of directory: ItemRow) throws -> NodeAttributes { try known(.folder(of: directory.key)) }

    private func hasVersions(_ row: ItemRow) throws -> Bool {
        guard row.kind == .file || row.kind == .directory, !row.isDeleted else { return false }
        if context.parts.versions.hasAppVersions(row.key) { return true }
        return try index.read { reader in
            try !reader.conflicts(of: row.id).isEmpty || reader.remote(id: row.id)?.hasHistory == true
        }
    }

    private func hasJustEmptied(_ row: ItemRow, _ caller: Caller?) -> Bool {
        guard let caller else { return false }
        return emptied.isSeen(row.key, by: caller.pid, now: context.parts.timekeeper.uptime())
    }

    func known(
        _ node: VersionNodes.Node, _ version: RemoteVersion? = nil, _ member: PackageMember? = nil
    ) throws -> NodeAttributes {
        let ino = try versionNodes.look(up: node, version, member, in: inodes) { UInt64(try index.newContentNumber()) }
        do { return try attributes(of: node, ino) } catch {
            forget(ino, 1)
            throw error
        }
    }

    /// The file's versions with their names.
    private func namedVersions(of key: ItemKey) async throws -> [(ItemName, RemoteVersion)] {
        guard let row = try index.row(key: key), !row.isDeleted, let name = row.entry?.name else { throw Errno.ENOENT }
        return names.named(try await context.parts.versions.otherVersions(of: row.id), of: row.id, name)
    }

    func version(named name: ItemName, of key: ItemKey) async throws -> RemoteVersion? {
        try await namedVersions(of: key).first { $0.0 == name }?.1
    }

    // MARK: Attributes

    /// Takes the rights of the directory or file concerned: a program that may write the file may decide about its
    /// versions.
    func attributes(of node: VersionNodes.Node, _ ino: UInt64) throws -> NodeAttributes {
        switch node {
        case .folder(let key), .file(let key):
            let owner: ItemKey
            if case .file = node { owner = try index.row(key: key)?.entry?.parent ?? .root } else { owner = key }
            guard let row = try index.row(key: owner), !row.isDeleted else { throw Errno.ENOENT }
            var attributes = volatile(
                row, ino, FileMode.directory | row.mode & FileMode.rights, size: 0, at: row.modifiedAt)
            attributes.modifiedAt = listings.stamped(row.modifiedAt)
            return attributes
        case .version(let id, let key, let side):
            guard let row = try index.row(key: key), let version = versionNodes.version(id) else { throw Errno.ENOENT }
            let isFolder = row.kind == .directory
            let mode = (isFolder ? FileMode.directory : FileMode.file) | row.mode & FileMode.rights
            return volatile(
                row, ino, side.shown(mode), size: isFolder ? 0 : version.content.size, at: version.modifiedAt)
        case .member(_, _, let key, let side):
            guard let row = try index.row(key: key), let member = versionNodes.member(node) else { throw Errno.ENOENT }
            return volatile(row, ino, side.shown(member.fileMode), size: member.shownSize, at: member.modifiedAt)
        }
    }

    func volatile(
        _ row: ItemRow, _ ino: UInt64, _ mode: UInt32, size: Int64, at time: Timestamp
    ) -> NodeAttributes {
        NodeAttributes(
            ino: ino, mode: mode, links: mode & FileMode.typeMask == FileMode.directory ? 2 : 1, uid: row.uid,
            gid: row.gid, size: size, blocks: size > 0 ? 1 : 0, accessedAt: time, modifiedAt: time, changedAt: time,
            isVolatile: true)
    }

    // MARK: Listings

    /// The contents of a versions folder, as they were when reading began, if that listing is still kept.
    func listing(_ ino: UInt64, offset: Int64) throws -> Answer<VersionsListing> {
        guard let node = versionNodes.node(ino) else { throw Errno.ESTALE }
        guard try attributes(of: node, ino).mode & FileMode.typeMask == FileMode.directory else { throw Errno.ENOTDIR }
        if offset > 0, let listing = listings.listing(of: ino, at: offset) { return .now(listing) }
        return .later { [self] in listings.add(ino, try await list(node)) }
    }

    private func list(_ node: VersionNodes.Node) async throws -> [VersionsListing.Entry] {
        switch node {
        case .version, .member: return try await packages.list(of: node)
        case .folder(let directory):
            var result = [VersionsListing.Entry](), last: ItemName?
            while true {
                // A further name of a file leads to the versions of the file.
                let rows = try index.read { reader in
                    let rows = try reader.childrenWithVersions(of: directory, after: last, limit: Self.versionsPage)
                    return try rows.map { ($0.entry?.name, try reader.named($0)?.key ?? $0.key) }
                }
                for case (let name?, let key) in rows {
                    last = name
                    result.append(VersionsListing.Entry(name: name, node: .file(key), kind: .directory))
                }
                if rows.count < Self.versionsPage { return try result + appEntries(in: directory, beside: result) }
            }
        case .file(let key):
            let kind = try index.row(key: key)?.kind ?? .file
            return try await namedVersions(of: key).map { name, version in
                VersionsListing.Entry(name: name, node: .version(version.id, of: key), kind: kind)
            }
        }
    }

    /// The files of a directory whose only versions are those that programs have added.
    private func appEntries(
        in directory: ItemKey, beside entries: [VersionsListing.Entry]
    ) throws -> [VersionsListing.Entry] {
        let known = Set(entries.map(\.name))
        return try context.parts.versions.itemsWithAppVersions.compactMap { key in
            guard let row = try index.row(key: key), !row.isDeleted, let entry = row.entry, entry.parent == directory,
                !known.contains(entry.name)
            else { return nil }
            return VersionsListing.Entry(name: entry.name, node: .file(key), kind: .directory)
        }
    }

    /// Files read from the index at a time.
    private static let versionsPage = 1000

    /// Emits entries of a versions folder. The kernel looks each one up by itself if it wants more than the name.
    func read(_ listing: VersionsListing, offset: Int64, emit: (DirectoryItem) -> Bool) {
        let dots = [".", ".."].map { (Array($0.utf8), NodeAttributes.identity(of: listing.ino, .directory)) }
        let first = VersionsListing.place(of: offset)
        for place in first..<max(first, dots.count + listing.entries.count) {
            let (name, identity) = place < dots.count ? dots[place] : {
                let entry = listing.entries[place - dots.count]
                return (entry.name.bytes, NodeAttributes.identity(of: versionNodes.number(of: entry.node), entry.kind))
            }()
            let item = DirectoryItem(
                name: name, offset: listing.offset(after: place), attributes: identity, isCounted: false)
            guard emit(item) else { return }
        }
    }

    // MARK: Reading

    func open(
        _ node: VersionNodes.Node, _ ino: UInt64, _ flags: OpenFlags, _ caller: Caller
    ) throws -> Answer<OpenedFile> {
        let version: RemoteVersion
        switch node {
        case .folder, .file: throw Errno.EISDIR
        case .version(let id, let key, _):
            guard let known = versionNodes.version(id), let row = try index.row(key: key) else { throw Errno.ESTALE }
            guard row.kind == .file else { throw Errno.EISDIR }
            version = known
        case .member(_, let id, _, _): version = try packages.memberVersion(node, id)
        }
        guard !flags.writes, !flags.contains(.truncate) else { throw Errno.EPERM }
        // Versions are not kept on this device: reading one downloads it.
        guard !context.isSniffing(flags, caller), !context.parts.backgroundReaders.isOne(caller.pid) else {
            throw Errno.EDEADLK
        }
        let source = context.parts.versions
        if flags.contains(.nonBlocking) {
            let beginning = PendingContent(nil) { try await source.begin(version) }
            return .now(openFiles.handle(on: openNodes.hold(ino), flags, partial: .pending(beginning)))
        }
        let held = openNodes.hold(ino)
        return .later { [self] in
            do {
                return openFiles.handle(on: held, flags, partial: .content(try await source.begin(version)))
            } catch {
                openNodes.release(held)
                throw error
            }
        }
    }

    // MARK: Inodes

    /// The kernel forgets `count` lookups of the inode.
    func forget(_ ino: UInt64, _ count: UInt64) { versionNodes.forget(ino, count, in: inodes) }

    func readLink(_ node: VersionNodes.Node) throws -> [UInt8] {
        guard let member = versionNodes.member(node), member.kind == .symlink else { throw Errno.EINVAL }
        return member.linkTarget
    }
}

extension FileMode {
    /// Permission bits to read, write and execute.
    static let rights: UInt32 = 0o777
}
