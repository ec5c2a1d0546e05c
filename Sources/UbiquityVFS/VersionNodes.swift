internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The inodes of `.versions` folders and their contents. The index has no rows for them; they have numbers while the
/// kernel knows them.
///
/// Their numbers are larger than those of items, so no lock is needed to tell the two apart. A version that is moved
/// out becomes an item and keeps its number, as a moved file does.
///
/// Lock order: before `InodeTable`.
final class VersionNodes: Sendable {
    enum Node: Hashable, Sendable {
        /// The folder `.versions` of a directory.
        case folder(of: ItemKey)
        /// The folder in `.versions` that contains one file's versions.
        case file(ItemKey)
        /// A version of a file; for a package, a folder.
        case version(VersionID, of: ItemKey, Side = .versionsFolder)
        /// A file or folder in a version of a package.
        case member([ItemName], VersionID, of: ItemKey, Side = .versionsFolder)
    }

    /// Where a version is shown. Each side has inodes of its own, because the kernel knows one place of a directory.
    enum Side: Hashable, Sendable {
        case versionsFolder
        /// Beside the document (`VisibleConflicts`).
        case besideDocument
    }

    private struct State {
        var nodes: [UInt64: Node] = [:]
        var numbers: [Node: UInt64] = [:]
        /// Details of each version that has a number.
        var versions: [VersionID: RemoteVersion] = [:]
        /// Details of each member that has a number.
        var members: [Node: PackageMember] = [:]
        /// Members that `rm -r` has removed before it reaches the version. The version is decided about as a whole.
        var removed: Set<Node> = []
    }

    /// Larger than any number of the index: at a million items a second it would take 35 years to reach it.
    static let firstNumber: UInt64 = 1 << UInt64(ItemIndex.versionNumberBit)

    private let state = Lock(State())

    /// The version node of an inode; nil if the inode is an item.
    func node(_ ino: UInt64) -> Node? {
        guard ino >= Self.firstNumber else { return nil }
        return state.withLock { $0.nodes[ino] }
    }

    func version(_ id: VersionID) -> RemoteVersion? { state.withLock { $0.versions[id] } }

    func member(_ node: Node) -> PackageMember? { state.withLock { $0.members[node] } }
    func recordRemoval(of node: Node) { state.withLock { _ = $0.removed.insert(node) } }
    func isRemoved(_ node: Node) -> Bool { state.withLock { $0.removed.contains(node) } }

    /// Forgets removed members after the version was decided about.
    func forgetRemovals(in version: VersionID) {
        state.withLock { state in
            state.removed = state.removed.filter { node in
                if case .member(_, version, _, _) = node { false } else { true }
            }
        }
    }

    /// The inode's number; counts one lookup by the kernel.
    /// - Parameter newNumber: returns a number that was never used.
    func look(
        up node: Node, _ version: RemoteVersion? = nil, _ member: PackageMember? = nil, in inodes: InodeTable,
        newNumber: () throws -> UInt64
    ) throws -> UInt64 {
        // Outside the lock, because it may wait for the disk.
        let fresh = state.withLock { $0.numbers[node] } == nil ? try newNumber() : nil
        return try state.withLock { state throws(Errno) in
            guard let number = state.numbers[node] ?? fresh.map({ Self.firstNumber + $0 }) else { throw Errno.ESTALE }
            state.numbers[node] = number
            state.nodes[number] = node
            if let version { state.versions[version.id] = version }
            if let member { state.members[node] = member }
            inodes.addLookup(number)
            return number
        }
    }

    /// The number that a listing shows. A listing counts no lookup.
    func number(of node: Node) -> UInt64 {
        state.withLock { $0.numbers[node] } ?? Self.firstNumber + UInt64(UInt32(truncatingIfNeeded: node.hashValue))
    }

    /// The kernel forgets `count` lookups of the inode.
    func forget(_ ino: UInt64, _ count: UInt64, in inodes: InodeTable) {
        state.withLock { state in
            inodes.forget(ino, count)
            if !inodes.isKnown(ino) { Self.drop(ino, &state) }
        }
    }

    /// Drops the node: the inode is an item from now on.
    func release(_ ino: UInt64) { state.withLock { Self.drop(ino, &$0) } }

    private static func drop(_ ino: UInt64, _ state: inout State) {
        guard let node = state.nodes.removeValue(forKey: ino) else { return }
        state.numbers[node] = nil
        if case .version(let id, let key, let side) = node {
            let other = Node.version(id, of: key, side == .versionsFolder ? .besideDocument : .versionsFolder)
            if state.numbers[other] == nil { state.versions[id] = nil }
        }
        state.members[node] = nil
    }
}
