internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

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
