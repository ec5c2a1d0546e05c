/// One item in a package's state that is kept as a version.
package struct PackageMember: Hashable, Sendable {
    /// The path from the package's folder.
    package var path: [ItemName]
    /// A file, a directory or a symlink. A file with several names has one entry for each.
    package var kind: ItemKind
    package var mode: UInt32
    package var createdAt: Timestamp
    package var modifiedAt: Timestamp
    package var xattrs: [Xattr]
    package var linkTarget: [UInt8]
    /// The version id of a file's content, by which a device recognizes it.
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

/// The whole state of a package. `Format.md` describes how it is stored as the content of a version.
package struct PackageTree: Hashable, Sendable {
    /// Ordered by path: a folder comes before its members.
    package let members: [PackageMember]

    package init(_ members: some Sequence<PackageMember>) {
        self.members = members.sorted { Self.precedes($0.path, $1.path) }
    }

    private static func precedes(_ left: [ItemName], _ right: [ItemName]) -> Bool {
        left.lexicographicallyPrecedes(right) { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    package func member(at path: [ItemName]) -> PackageMember? {
        let index = firstIndex(from: 0) { !Self.precedes($0.path, path) }
        return index < members.count && members[index].path == path ? members[index] : nil
    }

    /// Returns the direct members of a folder in the package; for an empty path, of the package itself.
    package func children(of path: [ItemName]) -> [PackageMember] {
        var result: [PackageMember] = []
        var index = firstIndex(from: 0) { Self.precedes(path, $0.path) }
        while index < members.count, members[index].path.starts(with: path) {
            let child = members[index]
            if child.path.count == path.count + 1 { result.append(child) }
            // The members of `child` follow directly after it.
            index = firstIndex(from: index + 1) { !$0.path.starts(with: child.path) }
        }
        return result
    }

    /// Returns the index of the first member, from `start` on, that satisfies `holds`; all members after it must
    /// satisfy it too.
    private func firstIndex(from start: Int, _ holds: (PackageMember) -> Bool) -> Int {
        var low = start, high = members.count
        while low < high {
            let middle = (low + high) / 2
            if holds(members[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// Total bytes of the files.
    package var contentSize: Int64 { members.reduce(0) { $0 + $1.size } }
    package var manifest: Manifest { members.flatMap(\.manifest) }

    /// Returns whether both states look the same to a user: names, kinds, link texts and file contents.
    package func hasContent(of other: PackageTree) -> Bool {
        members.count == other.members.count
            && zip(members, other.members).allSatisfy {
                $0.path == $1.path && $0.kind == $1.kind && $0.linkTarget == $1.linkTarget && $0.size == $1.size
                    && $0.manifest == $1.manifest
            }
    }
}

extension RemoteVersion {
    /// Returns a file in this version of a package as a version of its own; nil if the member is not a file.
    package func file(_ member: PackageMember) -> RemoteVersion? {
        guard let id = member.version, let name = member.path.last else { return nil }
        return RemoteVersion(
            content: RemoteContent(
                version: id, size: member.size, isAvailable: true, device: content.device,
                deviceName: content.deviceName, manifest: member.manifest),
            kind: kind, modifiedAt: member.modifiedAt, savedAt: savedAt, savedName: name, baseVersion: nil)
    }
}
