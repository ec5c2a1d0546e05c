package import UbiquityCore

/// What the arbiter has to know of the tree and of processes; answered by the index and the system, or by a model.
///
/// It is asked under the arbiter's lock, and only about claims that others may be concerned by.
package protocol Surroundings {
    /// The folder and those above it, up to the top folder, and the outermost package among them.
    func ancestry(of folder: ItemKey) -> Ancestry
    /// Where an item is now; nil if it has no place.
    func entry(of item: ItemKey) -> ClaimTarget.Entry?
    /// Whether the process (or thread) is that process, or one that it or its children started.
    func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool
    /// The process that it is (or is a thread of) and those that it was started by, nearest first.
    func lineage(of process: Int32) -> [Int32]
    func isAlive(_ process: Int32) -> Bool
}

package struct Ancestry: Sendable {
    /// Nearest first.
    package var folders: [ItemKey]
    /// The outermost folder among them that is one document.
    package var package: ItemKey?

    package init(folders: [ItemKey], package: ItemKey? = nil) {
        self.folders = folders
        self.package = package
    }
}
