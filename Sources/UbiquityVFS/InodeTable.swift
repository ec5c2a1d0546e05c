internal import Synchronization
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The inodes that the kernel knows: how often it looked up each, and the state that depends on that.
///
/// Lock order: a shard's lock is a leaf. No call is made and no other lock is taken under it.
final class InodeTable: Sendable {
    /// State kept of an inode while the kernel knows it.
    struct Node: Sendable {
        var lookups: UInt64 = 0
        /// The item's last row, if the item is deleted while the kernel still has it. Stored separately: few inodes
        /// have it, and there may be hundreds of thousands of nodes.
        private var departed: Departed?
        var orphan: ItemRow? {
            get { departed?.row }
            set { departed = newValue.map(Departed.init) }
        }
        /// Names in this directory that the kernel has cached as absent.
        var absences: Set<ItemName> = []
        /// Counts changes of this directory's entries.
        var listing: UInt64 = 0
        /// Number of directories in this directory, if counted since its last change.
        var directoryCount: Int?
        /// The access time that a program set.
        var accessedAt: Timestamp?
        /// The content whose pages the kernel may have cached; nil if none.
        var pages: ContentID?
        /// How often the kernel asked for this file's attributes since the last write (`Rereading`).
        var looks = Rereading.Looks()
    }

    private final class Departed: Sendable {
        let row: ItemRow
        init(_ row: ItemRow) { self.row = row }
    }

    /// Absent names recorded per directory. Beyond that, each new one invalidates an older one in the kernel.
    static let maximumAbsences = 1024
    /// Two inodes share a lock with a probability of 1 in this number; 16 threads serve the kernel.
    private static let shardCount = 16
    /// Each shard keeps capacity for this many inodes when it shrinks.
    private static let keptRoom = 1024

    /// Counts non-local commits. Their changes invalidate the kernel's cached inodes.
    let foreignCommits = Atomic<UInt64>(0)
    private let shards: [Lock<[UInt64: Node]>] = (0..<shardCount).map { _ in Lock([:]) }

    init() {
        // The kernel knows the top folder without a lookup and never forgets it.
        withNode(UInt64(1), orMake: true) { $0.lookups = 1 }
    }

    private func shard(_ ino: UInt64) -> Lock<[UInt64: Node]> { shards[Int(ino % UInt64(Self.shardCount))] }

    /// Runs `body` on the inode's node; nil if the kernel does not know the inode.
    @discardableResult
    func withNode<R>(_ ino: UInt64, orMake: Bool = false, _ body: (inout Node) -> R) -> R? {
        shard(ino).withLock { nodes in
            if orMake { return body(&nodes[ino, default: Node()]) }
            guard let place = nodes.index(forKey: ino) else { return nil }
            return body(&nodes.values[place])
        }
    }

    func isKnown(_ ino: UInt64) -> Bool { shard(ino).withLock { $0[ino] != nil } }

    /// Counts one lookup by the kernel.
    func addLookup(_ ino: UInt64) { withNode(ino, orMake: true) { $0.lookups += 1 } }

    /// Subtracts `count` lookups; forgets the inode when none is left.
    func forget(_ ino: UInt64, _ count: UInt64) {
        guard ino != 1 else { return }
        shard(ino).withLock { nodes in
            guard let place = nodes.index(forKey: ino) else { return }
            let left = nodes.values[place].lookups
            guard left <= count else { return nodes.values[place].lookups = left - count }
            nodes.remove(at: place)
            Self.giveRoomBack(&nodes)
        }
    }

    /// Shrinks a dictionary that is mostly empty. It would keep its largest capacity: more than 100 MB after a walk
    /// over a million files.
    private static func giveRoomBack(_ nodes: inout [UInt64: Node]) {
        guard nodes.capacity > keptRoom, nodes.count < nodes.capacity / 8 else { return }
        var smaller = [UInt64: Node](minimumCapacity: nodes.count * 2)
        for (ino, node) in nodes { smaller[ino] = node }
        nodes = smaller
    }

    func orphan(_ ino: UInt64) -> ItemRow? { withNode(ino) { $0.orphan } ?? nil }
    func accessTime(_ ino: UInt64) -> Timestamp? { withNode(ino) { $0.accessedAt } ?? nil }

    /// Capacity in inodes without further allocation.
    var room: Int { shards.reduce(0) { $0 + $1.withLock { $0.capacity } } }

    /// The inodes that the kernel knows.
    var known: [UInt64] { shards.flatMap { $0.withLock { Array($0.keys) } } }

    /// Number of inodes that the kernel knows.
    var count: Int { shards.reduce(0) { $0 + $1.withLock { $0.count } } }

    /// For tests: describes a broken invariant; nil if all hold.
    func violation() -> String? {
        for shard in shards {
            let found = shard.withLock { nodes -> String? in
                for (ino, node) in nodes {
                    if node.lookups == 0 { return "inode \(ino) is kept without a lookup" }
                    if node.absences.count > Self.maximumAbsences { return "inode \(ino) has too many absences" }
                    if let orphan = node.orphan, orphan.ino != ino { return "inode \(ino) has another's orphan" }
                }
                return nil
            }
            if let found { return found }
        }
        return isKnown(1) ? nil : "the top folder is forgotten"
    }
}
