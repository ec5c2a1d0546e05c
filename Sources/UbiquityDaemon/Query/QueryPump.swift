import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Tells live queries what changes: the index's commits as they happen, transfers by a look a few times a second, and
/// only while there are queries.
final class QueryPump: Sendable {
    private static let interval = Duration.milliseconds(250)
    /// Between two looks for a query: an idle machine should sleep.
    private static let idleInterval = Duration.seconds(1)

    private struct Seen: Sendable {
        var uploads: [ItemKey: TransferProgress] = [:]
        var downloads: [ItemKey: TransferProgress] = [:]
        var failures: Set<ItemKey> = []

        /// What is not the same in both.
        func difference(from other: Seen) -> Set<ItemKey> {
            let keys = Set(uploads.keys).union(other.uploads.keys).union(downloads.keys).union(other.downloads.keys)
            let moved = keys.filter {
                uploads[$0] != other.uploads[$0] || downloads[$0] != other.downloads[$0]
            }
            return moved.union(failures.symmetricDifference(other.failures))
        }
    }

    private let controller: MountController

    init(_ controller: MountController) {
        self.controller = controller
        controller.parts.index.observe { [queries = controller.queries] events in
            guard queries.hasWatchers else { return }
            queries.note(events)
        }
    }

    /// Until the task is cancelled.
    func run() async throws {
        var seen = Seen()
        while true {
            let isIdle = !controller.queries.hasWatchers
            try await controller.parts.timekeeper.sleep(for: isIdle ? Self.idleInterval : Self.interval)
            guard controller.queries.hasWatchers else {
                seen = Seen()
                continue
            }
            let before = seen
            seen = try await controller.pool.run { [self] in try look(before) }
        }
    }

    private func look(_ before: Seen) throws -> Seen {
        let engine = controller.engine
        let now = Seen(
            uploads: engine.runningUploads, downloads: engine.runningDownloads,
            failures: Set(engine.failedTransfers.map(\.item)))
        let rows = try now.difference(from: before).compactMap { try controller.parts.index.row(key: $0) }
        if !rows.isEmpty { controller.queries.note(rows) }
        return now
    }
}
