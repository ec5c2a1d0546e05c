internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Contents of a package version: folders, links, and files that download when they are read. Members cannot be decided
/// about separately, because the version is one unit.
///
/// It has no state of its own; `VersionNodes` has the removed members. `VersionsFolder` and `VersionDecisions` call it.
/// It asks the `VersionSource`.
final class PackageVersions: Room {
    let context: FileSystemContext

    init(_ context: FileSystemContext) {
        self.context = context
    }

    /// The version that the inode is or belongs to, the path in it, and its package.
    private func place(
        of node: VersionNodes.Node
    ) async throws -> (version: RemoteVersion, path: [ItemName], key: ItemKey, side: VersionNodes.Side) {
        switch node {
        case .folder, .file: throw Errno.EINVAL
        case .version(let id, let key, let side): return (try await conflict(id, of: key), [], key, side)
        case .member(let path, let id, let key, let side): return (try await conflict(id, of: key), path, key, side)
        }
    }

    /// Asks for the version again: the kernel may have forgotten it and still know its members.
    private func conflict(_ id: VersionID, of key: ItemKey) async throws -> RemoteVersion {
        if let known = versionNodes.version(id) { return known }
        guard let row = try index.row(key: key), !row.isDeleted,
            let found = try await context.parts.versions.otherVersions(of: row.id).first(where: { $0.id == id })
        else { throw Errno.ESTALE }
        return found
    }

    typealias Child = (node: VersionNodes.Node, member: PackageMember)

    private func children(of node: VersionNodes.Node) async throws -> [Child] {
        let (version, path, key, side) = try await place(of: node)
        return try await context.parts.versions.tree(of: version).children(of: path).compactMap { member in
            let node = VersionNodes.Node.member(member.path, version.id, of: key, side)
            return versionNodes.isRemoved(node) ? nil : (node, member)
        }
    }

    func child(_ name: ItemName, of node: VersionNodes.Node) async throws -> Child? {
        let (version, path, key, side) = try await place(of: node)
        let tree = try await context.parts.versions.tree(of: version)
        guard let member = tree.member(at: path + [name]) else { return nil }
        let node = VersionNodes.Node.member(member.path, version.id, of: key, side)
        return versionNodes.isRemoved(node) ? nil : (node, member)
    }

    func list(of node: VersionNodes.Node) async throws -> [VersionsListing.Entry] {
        try await children(of: node).compactMap { child in
            child.member.path.last.map {
                VersionsListing.Entry(name: $0, node: child.node, kind: child.member.kind)
            }
        }
    }

    /// A file of a package version, as a version by itself.
    func memberVersion(_ node: VersionNodes.Node, _ id: VersionID) throws -> RemoteVersion {
        guard let member = versionNodes.member(node) else { throw Errno.ESTALE }
        let version = versionNodes.version(id) ?? RemoteVersion(unknown: id)
        guard let file = version.file(member) else {
            throw member.kind == .directory ? Errno.EISDIR : Errno.ELOOP
        }
        return file
    }

    /// Removes a member: `rm -r` of a version removes its members one by one. They are hidden until the version itself
    /// is removed, or the mount ends.
    func removeMember(named name: ItemName, in parent: UInt64, _ directory: Bool) throws -> Answer<Void> {
        guard let node = versionNodes.node(parent) else { throw Errno.ESTALE }
        return .later { [self] in
            guard try await place(of: node).version.kind == .conflict else { throw Errno.EPERM }
            guard let found = try await child(name, of: node) else { throw Errno.ENOENT }
            guard directory == (found.member.kind == .directory) else {
                throw directory ? Errno.ENOTDIR : Errno.EISDIR
            }
            guard try await children(of: found.node).isEmpty else { throw Errno.ENOTEMPTY }
            versionNodes.recordRemoval(of: found.node)
        }
    }

    func requireEmptied(
        _ version: RemoteVersion, of key: ItemKey, _ side: VersionNodes.Side = .versionsFolder
    ) async throws {
        guard try await children(of: .version(version.id, of: key, side)).isEmpty else { throw Errno.ENOTEMPTY }
        versionNodes.forgetRemovals(in: version.id)
    }
}

extension PackageMember {
    var fileMode: UInt32 {
        switch kind {
        case .directory: FileMode.directory | mode & FileMode.rights
        case .symlink: FileMode.symlink | 0o777
        case .file, .hardLink, .fifo, .socket, .characterDevice, .blockDevice: FileMode.file | mode & FileMode.rights
        }
    }

    var shownSize: Int64 { kind == .symlink ? Int64(linkTarget.count) : kind == .file ? size : 0 }
}

extension RemoteVersion {
    /// Enough to name the author of a file whose version the kernel has forgotten.
    fileprivate init(unknown id: VersionID) {
        self.init(
            content: RemoteContent(
                version: id, size: 0, isAvailable: true, device: DeviceID(high: 0, low: 0), deviceName: "",
                manifest: nil),
            kind: .conflict, modifiedAt: .zero, savedAt: .zero, savedName: ItemName(stored: []), baseVersion: nil)
    }
}

extension VersionNodes.Node {
    /// The file or package to which the version or member belongs.
    var item: ItemKey? {
        switch self {
        case .folder, .file: nil
        case .version(_, let key, _), .member(_, _, let key, _): key
        }
    }
}
