/// One item of a package's state that is kept as a version.
package struct PackageMember: Hashable, Sendable {
    /// From the package's folder on.
    package var path: [ItemName]
    /// A file, a directory or a symlink: a file of several names stands there once for each.
    package var kind: ItemKind
    package var mode: UInt32
    package var createdAt: Timestamp
    package var modifiedAt: Timestamp
    package var xattrs: [Xattr]
    package var linkTarget: [UInt8]
    /// A file's content has this version's id, by which it is known on a device.
    package var version: VersionID?
    /// Size in bytes.
    package var size: Int64
    package var manifest: Manifest

    package init(
        path: [ItemName], kind: ItemKind, mode: UInt32, createdAt: Timestamp, modifiedAt: Timestamp,
        xattrs: [Xattr] = [], linkTarget: [UInt8] = [], version: VersionID? = nil, size: Int64 = 0,
        manifest: Manifest = []
    ) {
        self.path = path
        self.kind = kind
        self.mode = mode
        self.createdAt = createdAt
        self.modifiedAt = modifiedAt
        self.xattrs = xattrs
        self.linkTarget = linkTarget
        self.version = version
        self.size = size
        self.manifest = manifest
    }
}

/// A whole state of a package. How it is kept as the content of a version says
/// `Format.md`.
package struct PackageTree: Hashable, Sendable {
    /// In the order of their paths: a folder before what is in it.
    package let members: [PackageMember]

    package init(_ members: some Sequence<PackageMember>) {
        self.members = members.sorted { left, right in
            left.path.lexicographicallyPrecedes(right.path) { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        }
    }

    /// Bytes of the files.
    package var contentSize: Int64 { members.reduce(0) { $0 + $1.size } }
    package var manifest: Manifest { members.flatMap(\.manifest) }

    /// Whether a person finds the same in both: names, kinds, texts of links and bytes of files.
    package func hasContent(of other: PackageTree) -> Bool {
        members.count == other.members.count
            && zip(members, other.members).allSatisfy {
                $0.path == $1.path && $0.kind == $1.kind && $0.linkTarget == $1.linkTarget && $0.size == $1.size
                    && $0.manifest == $1.manifest
            }
    }
}

extension RemoteVersion {
    /// A file in this version of a package, as a version by itself; nil for what is no file.
    package func file(_ member: PackageMember) -> RemoteVersion? {
        guard let id = member.version, let name = member.path.last else { return nil }
        return RemoteVersion(
            content: RemoteContent(
                version: id, size: member.size, isAvailable: true, device: content.device,
                deviceName: content.deviceName, manifest: member.manifest),
            kind: kind, modifiedAt: member.modifiedAt, savedAt: savedAt, savedName: name, baseVersion: nil)
    }
}
