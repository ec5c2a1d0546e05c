package import UbiquityCore

/// A row of a container's tree that no commit makes, for example a hard link that leads to itself.
package struct TreeFinding: Hashable, Sendable {
    package var container: ContainerID
    package var item: ItemID
    package var detail: String
    package var isMended: Bool
}

extension Cloud {
    /// Looks at the trees of all containers.
    package func examineTrees() async throws -> [TreeFinding] { [] }
}
