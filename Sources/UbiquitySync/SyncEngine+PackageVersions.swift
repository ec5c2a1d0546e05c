internal import UbiquityContent
package import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

// Versions of packages: whole losing states, read member by member.
extension SyncEngine {
    /// The members of a package's version. Downloads the list once.
    /// - Throws: the errors of a download, and `.damaged` for an invalid list.
    package func tree(of version: RemoteVersion) async throws -> PackageTree {
        if let known = packageTrees.tree(of: version.id) { return known }
        let content = try await begin(version)
        defer { release(content) }
        let head = Int64(PackageTree.headLength)
        try await fill(content, 0..<min(head, content.size))
        let length = try PackageTree.listLength(try content.file.read(count: PackageTree.headLength, at: 0))
        let end = head + Int64(length)
        guard end <= content.size else { throw UbiquityError(.damaged, "a package's list is longer than its version") }
        try await fill(content, 0..<end)
        let tree = try PackageTree(list: content.file.read(count: length, at: head), content.manifest)
        packageTrees.keep(tree, of: version.id)
        return tree
    }
}

/// A cache of recently read lists of members.
final class PackageTrees: Sendable {
    /// Some MB at most, for packages of thousands of members.
    private static let capacity = 16
    private let trees = Lock<[(id: VersionID, tree: PackageTree)]>([])

    func tree(of version: VersionID) -> PackageTree? {
        trees.withLock { trees in trees.first { $0.id == version }?.tree }
    }

    func keep(_ tree: PackageTree, of version: VersionID) {
        trees.withLock { trees in
            trees.removeAll { $0.id == version }
            trees.append((version, tree))
            if trees.count > Self.capacity { trees.removeFirst() }
        }
    }
}
