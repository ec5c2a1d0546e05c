import Synchronization
import UbiquityCore
import UbiquityWire

/// Counts from zero.
final class Counter: Sendable {
    private let count = Atomic(0)
    func next() -> Int { count.wrappingAdd(1, ordering: .relaxed).oldValue }
}

/// The cloud's commit engine and a device's index, which both maintain a tree.
extension FuzzTarget {
    static let treeTargets = [
        FuzzTarget("commits", testExecutions: 500) { random in
            var container = FuzzedContainer()
            for _ in 0...random.below(12) {
                var request = random.commitRequest()
                // Most changes refer to existing items.
                for index in request.changes.indices where random.oneIn(2) {
                    request.changes[index].baseRevision = container.revision
                }
                try container.commit(request)
            }
        },
        FuzzTarget("feeds", testExecutions: 40) { random in
            let device = try FuzzedDevice(&random)
            var pages = [[RemoteItem]]()
            for _ in 0...random.below(6) {
                let page = (0...random.below(8)).map { _ in random.feedItem() }
                pages.append(page)
                try device.receive(page, asPage: random.oneIn(2), isLast: !random.oneIn(4))
                for _ in 0..<random.below(3) { try device.act(&random) }
                if random.oneIn(3) { try device.settle() }
            }
            try device.settle()
            _ = try device.rows()
            // Known records that arrive again remove nothing.
            try device.settle()
            let before = try device.rows()
            for page in pages where random.oneIn(2) {
                try device.receive(page.filter { !$0.isDeleted }, asPage: false, isLast: true)
            }
            try require(try device.rows().count >= before.count, "a page that came again takes items away")
            try device.check()
        },
    ]
}

extension FuzzRandom {
    /// A record that a hostile cloud may send: any parent, kind and link, at any time.
    mutating func feedItem() -> RemoteItem {
        var item = remoteItem()
        if oneIn(30) { item.id = .root }
        if oneIn(3) { item.parent = ItemID(high: 1, low: UInt64(below(10))) }
        if oneIn(20) { item.name = ItemName(stored: Array(".versions".utf8)) }
        return item
    }
}
