package import UbiquityCore
internal import UbiquityIndex

/// A tree as a user sees it: every synced property, by path.
package struct TreePicture: Hashable, Sendable {
    package struct Node: Hashable, Sendable {
        package var kind: ItemKind
        package var mode: UInt32
        package var modifiedAt: Timestamp
        package var xattrs: [Xattr]
        package var linkTarget: [UInt8]
        package var size: Int64
        /// The fingerprint of a file's bytes; nil if they are not compared.
        package var content: ChunkID?
        /// Unresolved conflict versions.
        package var conflicts: [VersionID] = []
    }

    package var nodes: [String: Node] = [:]

    package init() {}

    /// The differences from another tree, as text, at most 20.
    package func differences(from other: TreePicture) -> [String] {
        var found = [String]()
        for path in Set(nodes.keys).union(other.nodes.keys).sorted() where nodes[path] != other.nodes[path] {
            found.append("\(path): \(Self.describe(nodes[path])) ≠ \(Self.describe(other.nodes[path]))")
        }
        return found.count <= 20 ? found : Array(found.prefix(20)) + ["and \(found.count - 20) more"]
    }

    private static func describe(_ node: Node?) -> String {
        guard let node else { return "nothing" }
        var parts = ["\(node.kind)", String(node.mode, radix: 8), "mtime \(node.modifiedAt.nanoseconds)"]
        if node.kind == .file { parts.append("\(node.size) bytes \(node.content?.description.prefix(8) ?? "unread")") }
        if !node.conflicts.isEmpty { parts.append("in conflict with " + node.conflicts.map(\.short).joined(separator: " ")) }
        if node.kind == .symlink { parts.append("→ " + String(decoding: node.linkTarget, as: UTF8.self)) }
        for xattr in node.xattrs {
            parts.append(String(decoding: xattr.name + Array("=".utf8) + xattr.value, as: UTF8.self))
        }
        return parts.joined(separator: " ")
    }
}

extension SimulatedDevice {
    /// The device's tree.
    /// - Parameter reading: whether every file is read, and downloaded if it is absent.
    package func picture(reading: Bool) async throws -> TreePicture {
        var picture = TreePicture()
        for (path, row) in try paths() where !row.isExcluded && !row.flags.contains(.lingering) {
            var node = TreePicture.Node(
                kind: row.kind, mode: row.mode, modifiedAt: row.modifiedAt, xattrs: row.xattrs,
                linkTarget: row.linkTarget, size: row.kind == .file ? row.size : 0)
            if reading, row.kind == .file { node.content = Self.fingerprint(try await read(path)) }
            node.conflicts = try index.read { try $0.conflicts(of: row.id) }.map(\.id).sorted()
            picture.nodes[path] = node
        }
        return picture
    }
}
