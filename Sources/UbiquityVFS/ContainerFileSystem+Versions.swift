internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// The hidden `.versions` folder of each directory. It has a folder for each file with other versions, and in that a
// file for each version, which downloads when it is read. Nothing can be created in it. Removing a version or moving it
// out decides about it.
extension ContainerFileSystem {
    /// Whether the inode is in a versions folder: then operations on it may have to wait, and the kernel caches
    /// nothing.
    package func isInVersions(_ ino: UInt64) -> Bool { versionNodes.node(ino) != nil }

    // MARK: Names

    /// The item of that name; nil if there is none. May have to ask the cloud for versions. The kernel counts one
    /// lookup of the returned inode.
    /// - Parameter caller: nil if unknown.
    package func lookup(parent: UInt64, name: [UInt8], caller: Caller? = nil) throws -> Answer<NodeAttributes?> {
        switch versionNodes.node(parent) {
        case nil:
            if let entry = try visibleConflict(named: name, in: parent) {
                return .now(try known(entry.node, entry.version))
            }
            return .now(try lookupInTree(parent: parent, name: name))
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
        case .version, .member: return try findMember(named: try ItemName.checked(name), in: parent)
        }
    }

    /// `.versions` in a directory.
    func versionsFolder(of directory: ItemRow) throws -> NodeAttributes { try known(.folder(of: directory.key)) }

    private func hasVersions(_ row: ItemRow) throws -> Bool {
        guard row.kind == .file || row.kind == .directory, !row.isDeleted else { return false }
        return try index.read { reader in
            try !reader.conflicts(of: row.id).isEmpty || reader.remote(id: row.id)?.hasHistory == true
        }
    }

    private func hasJustEmptied(_ row: ItemRow, _ caller: Caller?) -> Bool {
        guard let caller else { return false }
        return emptiedVersions.isSeen(row.key, by: caller.pid, now: parts.timekeeper.uptime())
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
        return versionNames.named(try await parts.versions.otherVersions(of: row.id), of: row.id, name)
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
            attributes.modifiedAt = versionListings.stamped(row.modifiedAt)
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
    package func versionsListing(_ ino: UInt64, offset: Int64) throws -> Answer<VersionsListing> {
        guard let node = versionNodes.node(ino) else { throw Errno.ESTALE }
        guard try attributes(of: node, ino).mode & FileMode.typeMask == FileMode.directory else { throw Errno.ENOTDIR }
        if offset > 0, let listing = versionListings.listing(of: ino, at: offset) { return .now(listing) }
        return .later { [self] in versionListings.add(ino, try await list(node)) }
    }

    private func list(_ node: VersionNodes.Node) async throws -> [VersionsListing.Entry] {
        switch node {
        case .version, .member: return try await listMembers(of: node)
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
                if rows.count < Self.versionsPage { return result }
            }
        case .file(let key):
            let kind = try index.row(key: key)?.kind ?? .file
            return try await namedVersions(of: key).map { name, version in
                VersionsListing.Entry(name: name, node: .version(version.id, of: key), kind: kind)
            }
        }
    }

    /// Files read from the index at a time.
    private static let versionsPage = 1000

    /// Emits entries of a versions folder. The kernel looks each one up by itself if it wants more than the name.
    package func read(_ listing: VersionsListing, offset: Int64, emit: (DirectoryItem) -> Bool) {
        let dots = [".", ".."].map { (Array($0.utf8), Self.identity(of: listing.ino, .directory)) }
        let first = VersionsListing.place(of: offset)
        for place in first..<max(first, dots.count + listing.entries.count) {
            let (name, identity) = place < dots.count ? dots[place] : {
                let entry = listing.entries[place - dots.count]
                return (entry.name.bytes, Self.identity(of: versionNodes.number(of: entry.node), entry.kind))
            }()
            let item = DirectoryItem(
                name: name, offset: listing.offset(after: place), attributes: identity, isCounted: false)
            guard emit(item) else { return }
        }
    }

    // MARK: Reading

    func openVersion(
        _ node: VersionNodes.Node, _ ino: UInt64, _ flags: OpenFlags, _ caller: Caller
    ) throws -> Answer<OpenedFile> {
        let version: RemoteVersion
        switch node {
        case .folder, .file: throw Errno.EISDIR
        case .version(let id, let key, _):
            guard let known = versionNodes.version(id), let row = try index.row(key: key) else { throw Errno.ESTALE }
            guard row.kind == .file else { throw Errno.EISDIR }
            version = known
        case .member(_, let id, _, _): version = try memberVersion(node, id)
        }
        guard !flags.writes, !flags.contains(.truncate) else { throw Errno.EPERM }
        // Versions are not kept on this device: reading one downloads it.
        guard !isSniffing(flags, caller), !parts.backgroundReaders.isOne(caller.pid) else { throw Errno.EDEADLK }
        let source = parts.versions
        if flags.contains(.nonBlocking) {
            let beginning = PendingContent(nil) { try await source.begin(version) }
            return .now(handle(on: openNodes.hold(ino), flags, partial: .pending(beginning)))
        }
        let held = openNodes.hold(ino)
        return .later { [self] in
            do {
                return handle(on: held, flags, partial: .content(try await source.begin(version)))
            } catch {
                openNodes.release(held)
                throw error
            }
        }
    }
}

extension FileMode {
    /// Permission bits to read, write and execute.
    static let rights: UInt32 = 0o777
}
