import Logging
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Notifies live queries of changes: of commits as they happen, of transfers by polling a few times a second. Polls
/// only while there are queries.
final class QueryPump: Sendable {
    private static let interval = Duration.milliseconds(250)
    /// Interval of polling for a query: an idle machine should sleep.
    private static let idleInterval = Duration.seconds(1)

    private struct Seen: Sendable {
        var uploads: [ItemKey: TransferProgress] = [:]
        var downloads: [ItemKey: TransferProgress] = [:]
        /// The errors, without the times of the next attempts.
        var failures: [ItemKey: [TransferDirection: UbiquityError]] = [:]

        /// The items that differ.
        func difference(from other: Seen) -> Set<ItemKey> {
            let keys = [self, other].reduce(into: Set<ItemKey>()) { keys, seen in
                keys.formUnion(seen.uploads.keys)
                keys.formUnion(seen.downloads.keys)
                keys.formUnion(seen.failures.keys)
            }
            return keys.filter {
                uploads[$0] != other.uploads[$0] || downloads[$0] != other.downloads[$0]
                    || failures[$0] != other.failures[$0]
            }
        }
    }

    private let parts: MountParts
    private let queries: QueryHub

    init(_ parts: MountParts, _ queries: QueryHub) {
        self.parts = parts
        self.queries = queries
        parts.index.observe { [queries] events in
            guard queries.hasWatchers else { return }
            queries.note(events)
        }
    }

    /// Polls until the task is cancelled. After a failed poll the next one compares with the same state.
    func run() async throws {
        var seen = Seen()
        var isFailing = false
        while true {
            let isIdle = !queries.hasWatchers
            try await parts.timekeeper.sleep(for: isIdle ? Self.idleInterval : Self.interval)
            guard queries.hasWatchers else {
                seen = Seen()
                continue
            }
            let before = seen
            do {
                seen = try await parts.pool.run { [self] in try look(before) }
                isFailing = false
            } catch {
                try Task.checkCancellation()
                // Logged once, not four times a second.
                if !isFailing { note(error) }
                isFailing = true
            }
        }
    }

    private func note(_ error: any Error) {
        parts.logger.warning("cannot send transfers to queries", metadata: ["error": "\(error)"])
    }

    private func look(_ before: Seen) throws -> Seen {
        let engine = parts.engine
        var now = Seen(uploads: engine.status.runningUploads, downloads: engine.status.runningDownloads)
        for failed in engine.status.failedTransfers {
            now.failures[failed.item, default: [:]][failed.direction] = failed.problem.error
        }
        let rows = try now.difference(from: before).compactMap { try parts.index.row(key: $0) }
        if !rows.isEmpty { queries.note(rows) }
        return now
    }
}
