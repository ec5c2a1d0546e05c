internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Fetches files that a program is about to open.
extension SyncEngine {
    /// Called when a program has opened a placeholder. It runs in the background.
    func readAhead(of key: ItemKey) {
        guard connection.isOnline, !connection.isPaused else { return }
        downloads.runLane {
            do {
                for row in try await self.pool.run({ try self.filesAhead(of: key) }) {
                    self.downloads.runLane { await self.downloadInBackground(row) }
                }
            } catch {
                self.logger.debug("cannot fetch files ahead", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// The placeholders likely to be opened next: small ones, and only as many as fit without an eviction.
    private func filesAhead(of key: ItemKey) throws -> [ItemRow] {
        guard let opened = try index.row(key: key), let entry = opened.entry else { return [] }
        let span = readingOrder.withLock { $0.span(in: entry.parent) }
        let following = try index.read { try $0.children(of: entry.parent, after: entry.name, limit: span) }
        let count = readingOrder.withLock { order in
            order.opened(
                entry.name, in: entry.parent, upcoming: following.compactMap { $0.entry?.name }, now: timekeeper.now())
        }
        guard count > 0 else { return [] }
        var room = min(try space.freeSpace(), SyncLimits.aheadBytes)
        return try index.read { reader in
            var files = [ItemRow]()
            for row in following where row.size <= SyncLimits.aheadFileSize && row.size <= room {
                guard files.count < count, let file = try placeholder(row.key, reader) else { continue }
                room -= row.size
                files.append(file)
            }
            return files
        }
    }
}
