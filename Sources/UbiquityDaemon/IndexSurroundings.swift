import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// Gives the arbiter the tree and the processes.
///
/// Unreadable rows count as missing: then a claim covers the item only. A broken index shows everywhere else.
struct IndexSurroundings: Surroundings {
    let index: ItemIndex

    func ancestry(of folder: ItemKey) -> Ancestry {
        var folders = [ItemKey](), package: ItemKey?
        var next: ItemKey? = folder
        while let key = next, folders.count < Limits.maximumDepth {
            folders.append(key)
            // A folder's inode number is its key, and rows by inode number are cached.
            guard key != .root, let row = try? index.row(ino: UInt64(key.rawValue)), let entry = row.entry else {
                break
            }
            if index.isPackage(row) { package = key }
            next = entry.parent
        }
        return Ancestry(folders: folders, package: package)
    }

    func entry(of item: ItemKey) -> ClaimTarget.Entry? {
        guard let row = try? index.row(key: item), !row.isDeleted, let entry = row.entry else { return nil }
        return ClaimTarget.Entry(parent: entry.parent, name: entry.name)
    }

    func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool {
        ProcessTree.process(process, descendsFrom: ancestor)
    }

    func lineage(of process: Int32) -> [Int32] { ProcessTree.lineage(of: process) }

    func isAlive(_ process: Int32) -> Bool { ProcessTree.isAlive(process) }
}
