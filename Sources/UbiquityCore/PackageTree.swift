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
        self.members = members.sorted { Self.precedes($0.path, $1.path) }
    }

    private static func precedes(_ left: [ItemName], _ right: [ItemName]) -> Bool {
        left.lexicographicallyPrecedes(right) { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    package func member(at path: [ItemName]) -> PackageMember? {
        let index = firstIndex(from: 0) { !Self.precedes($0.path, path) }
        return index < members.count && members[index].path == path ? members[index] : nil
    }

    /// What lies right in a folder of the package; of an empty path in the package itself.
    package func children(of path: [ItemName]) -> [PackageMember] {
        var result: [PackageMember] = []
        var index = firstIndex(from: 0) { Self.precedes(path, $0.path) }
        while index < members.count, members[index].path.starts(with: path) {
            let child = members[index]
            if child.path.count == path.count + 1 { result.append(child) }
            // What lies in it comes right behind it.
            index = firstIndex(from: index + 1) { !$0.path.starts(with: child.path) }
        }
        return result
    }

    /// The first member from there on of which it holds; it must hold of all behind that one.
    private func firstIndex(from start: Int, _ holds: (PackageMember) -> Bool) -> Int {
        var low = start, high = members.count
        while low < high {
            let middle = (low + high) / 2
            if holds(members[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
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
