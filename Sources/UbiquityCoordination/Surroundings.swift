package import UbiquityCore

/// What the arbiter needs to know about the tree and about processes, provided by the index and the system, or by a
/// model.
///
/// The arbiter calls it under its lock, and only for claims that may affect others.
package protocol Surroundings {
    /// Returns the folder and those above it, up to the top folder, and the outermost package among them.
    func ancestry(of folder: ItemKey) -> Ancestry
    /// Returns the present entry of an item; nil if it has none.
    func entry(of item: ItemKey) -> ClaimTarget.Entry?
    /// Returns whether the process (or thread) is the ancestor, or was started by it or its children.
    func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool
    /// Returns the process (of a thread) and its ancestors, nearest first.
    func lineage(of process: Int32) -> [Int32]
    func isAlive(_ process: Int32) -> Bool
}

package struct Ancestry: Sendable {
    /// Nearest first.
    package var folders: [ItemKey]
    /// The outermost folder among them that is a package.
    package var package: ItemKey?

    package init(folders: [ItemKey], package: ItemKey? = nil) {
        self.folders = folders
        self.package = package
    }
}
