internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// What the kernel knows: for each inode how often it was looked up, and what depends on that.
///
/// Lock order: a shard's lock is a leaf. Nothing is called and no other lock is taken under it.
final class InodeTable: Sendable {
    /// What is kept of an inode while the kernel knows it.
    struct Node: Sendable {
        var lookups: UInt64 = 0
        /// The item as it was, if it is gone while the kernel still has it. Apart, because few have it and there may be
        /// hundreds of thousands of nodes.
        private var departed: Departed?
        var orphan: ItemRow? {
            get { departed?.row }
            set { departed = newValue.map(Departed.init) }
        }
        /// Names in this directory that the kernel was told not to exist.
        var absences: Set<ItemName> = []
        /// Counts changes of this directory's entries.
        var listing: UInt64 = 0
        /// How many of this directory's entries are directories, if that was counted since the last change of it.
        var directoryCount: Int?
        /// The last access that a program set.
        var accessedAt: Timestamp?
        /// Of which content the pages are that the kernel may have of this file; nil if they may be of none.
        var pages: ContentID?
        /// How often the kernel has asked for this file's attributes since it was written to last (`Rereading`).
        var looks = Rereading.Looks()
    }

    private final class Departed: Sendable {
        let row: ItemRow
        init(_ row: ItemRow) { self.row = row }
    }

    /// Names remembered as absent per directory. Beyond, the kernel is made to forget one for each new one.
    static let maximumAbsences = 1024
    /// Locks for different inodes are different with this probability's complement; 16 threads serve the kernel.
    private static let shardCount = 16
    /// For so many inodes each lock's part keeps the room that it once needed.
    private static let keptRoom = 1024

    private let shards: [Lock<[UInt64: Node]>] = (0..<shardCount).map { _ in Lock([:]) }

    init() {
        // The kernel knows the top folder without a lookup and never forgets it.
        withNode(UInt64(1), orMake: true) { $0.lookups = 1 }
    }

    private func shard(_ ino: UInt64) -> Lock<[UInt64: Node]> { shards[Int(ino % UInt64(Self.shardCount))] }

    /// Runs `body` on what is kept of the inode; nil if the kernel does not know it.
    @discardableResult
    func withNode<R>(_ ino: UInt64, orMake: Bool = false, _ body: (inout Node) -> R) -> R? {
        shard(ino).withLock { nodes in
            if orMake { return body(&nodes[ino, default: Node()]) }
            guard let place = nodes.index(forKey: ino) else { return nil }
            return body(&nodes.values[place])
        }
    }

    func isKnown(_ ino: UInt64) -> Bool { shard(ino).withLock { $0[ino] != nil } }

    /// The kernel is told of the inode once more.
    func addLookup(_ ino: UInt64) { withNode(ino, orMake: true) { $0.lookups += 1 } }

    /// The kernel forgets `count` of its lookups.
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

    /// A dictionary keeps the room that it once needed: of a walk over a million files more than 100 MB.
    private static func giveRoomBack(_ nodes: inout [UInt64: Node]) {
        guard nodes.capacity > keptRoom, nodes.count < nodes.capacity / 8 else { return }
        var smaller = [UInt64: Node](minimumCapacity: nodes.count * 2)
        for (ino, node) in nodes { smaller[ino] = node }
        nodes = smaller
    }

    func orphan(_ ino: UInt64) -> ItemRow? { withNode(ino) { $0.orphan } ?? nil }
    func accessTime(_ ino: UInt64) -> Timestamp? { withNode(ino) { $0.accessedAt } ?? nil }

    /// Inodes that there is room for without asking for more.
    var room: Int { shards.reduce(0) { $0 + $1.withLock { $0.capacity } } }

    /// Inodes that the kernel knows.
    var count: Int { shards.reduce(0) { $0 + $1.withLock { $0.count } } }

    /// For tests: what must hold at every moment. Nil if it does.
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
