import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Pending items, each with the reason; at most `MountStatus.maximumPendingItems`.
struct PendingItems: MountCommand {
    let parts: MountParts

    /// Rows examined to find those of one folder.
    private static let mostLookedThrough = 10_000

    /// The first pending uploads.
    /// - Parameter concerned: selects the items to include; nil includes all.
    func uploads(of concerned: (([ItemRow]) throws -> Set<ItemKey>)? = nil) throws -> [PendingItem] {
        let running = engine.status.runningUploads
        let limit = concerned == nil ? MountStatus.maximumPendingItems : Self.mostLookedThrough
        let all = try engine.status.pendingUploads(limit: limit)
        let meant = try concerned?(all.map(\.row))
        let unsent = all.filter { meant?.contains($0.row.key) ?? true }
        let items = try unsent.prefix(MountStatus.maximumPendingItems).map { waiting in
            let row = waiting.row
            var item = PendingItem(path: try shownPath(of: row), direction: .upload, reason: .waiting)
            if row.dirty.contains(.content), !row.isDeleted { item.bytes = row.size }
            if let progress = running[row.key] {
                item.reason = .transferring
                item.bytes = progress.totalBytes - progress.doneBytes
            } else if let problem = waiting.problem {
                item.reason = problem.error.code == .quotaExceeded ? .quota : .retrying
                item.error = problem.error.description
                item.retryAt = problem.retryAt.seconds
            } else if let rests = waiting.restsUntil {
                item.reason = .throttled
                item.retryAt = rests.seconds
            }
            item.waits = try parts.index.read { try engine.waits(of: row, $0).upload }.map(TransferWait.init)
            return item
        }
        guard items.count < MountStatus.maximumPendingItems else { return items }
        // Files with decisions about versions.
        let decided = try parts.index.read { try $0.itemsWithVersionActions(limit: limit) }
        let meantToo = try concerned?(decided)
        return items + (try decided.filter { meantToo?.contains($0.key) ?? true }.map { row in
            PendingItem(path: try shownPath(of: row), direction: .upload, reason: .waiting)
        }).prefix(MountStatus.maximumPendingItems - items.count)
    }

    /// The path to show. A deleted item has no path here, but its deletion still has to be uploaded.
    private func shownPath(of row: ItemRow) throws -> String {
        try parts.tree.path(of: row.key) ?? parts.tree.pathAtCloud(of: row.id).map { "\($0) (deleted)" } ?? "(deleted)"
    }

    static let waitsForWriter = "waits until the program that writes to it closes it"

    /// Files changed or deleted remotely that a local program has open for writing.
    func heldUpByPrograms() throws -> [(key: ItemKey, path: String)] {
        let written = parts.fileSystem.writtenInodes.prefix(MountStatus.maximumPendingItems)
        let keys = try parts.index.read { reader -> [ItemKey] in
            let records = try reader.records(.waiting, limit: MountStatus.maximumPendingItems)
            let waiting = try records.compactMap { try reader.row(id: $0) }.filter(\.isWriting)
            let outdated = try written.compactMap { try reader.row(ino: $0) }.filter { row in
                let newest = try reader.remote(id: row.id)?.content?.version
                return newest != nil && newest != row.version && !row.dirty.contains(.content)
            }
            return (waiting + outdated).map(\.key)
        }
        var seen = Set<ItemKey>()
        return try keys.filter { seen.insert($0).inserted }.compactMap { key in
            try parts.tree.path(of: key).map { (key, $0) }
        }
    }

    /// Running downloads, and failed ones that are retried automatically. A failed download that only a program
    /// requested is not pending: it is retried only when the file is opened again.
    func downloads() throws -> [PendingItem] {
        let running = engine.status.runningDownloads.keys
        let failed = engine.status.failedTransfers.filter { $0.direction == .download && !running.contains($0.item) }
        let wanted = try engine.status.wanted(of: failed.map(\.item), limit: MountStatus.maximumPendingItems)
        let awaited = try engine.status.awaited(limit: MountStatus.maximumPendingItems)
        let known = Array(running) + wanted
        let keys = (known + awaited.filter { !known.contains($0) }).prefix(MountStatus.maximumPendingItems)
        let held = try heldUpByPrograms().filter { !keys.contains($0.key) }.map { item in
            PendingItem(
                path: item.path, direction: .download, reason: .waiting,
                error: "a change from another device \(Self.waitsForWriter)")
        }
        let items = try keys.compactMap { key in
            try parts.tree.path(of: key).map { try download(key, at: $0) }
        }
        return (items + held.prefix(MountStatus.maximumPendingItems - items.count)).sorted { $0.path < $1.path }
    }

    /// The state of a missing content.
    func download(_ key: ItemKey, at path: String) throws -> PendingItem {
        var item = PendingItem(path: path, direction: .download, reason: .waiting)
        if let progress = engine.status.runningDownloads[key] {
            item.reason = .transferring
            item.bytes = progress.totalBytes - progress.doneBytes
            return item
        }
        guard try !engine.status.wanted(of: [key], limit: 1).isEmpty else {
            item.error = "not requested; 'ubiquity download' downloads it"
            return item
        }
        guard let problem = engine.status.downloadProblem(of: key) else {
            item.error = try engine.status.whyNotHere(key)?.description
            return item
        }
        item.error = problem.error.description
        // An attempt that is due and not running waits for the cloud.
        guard problem.retryAt > parts.timekeeper.now() else { return item }
        item.reason = .retrying
        item.retryAt = problem.retryAt.seconds
        return item
    }

    /// The text about deletions on hold; nil if there are none.
    var heldDeletions: String? {
        let count = engine.heldDeletions
        guard count > 0 else { return nil }
        return "\(count) deletions are on hold, more than half of all items; "
            + "'ubiquity deletions confirm' uploads them, 'ubiquity deletions undo' restores the items"
    }
}
