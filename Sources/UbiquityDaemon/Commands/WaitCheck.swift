import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Checks whether a wait is over. It remembers the last item that failed the check and tests that one first, so that
/// waiting for a large folder does not walk it after each change.
final class WaitCheck: Sendable {
    let wanted: WaitRequest
    private let parts: MountParts
    private let tops: [ItemKey]
    private let missing = Lock<ItemKey?>(nil)
    /// Position, in the order of changes, of a change that the wait is for.
    private let pending = Lock<Int64?>(nil)
    /// The same for a deletion on hold, and the position up to which none was found.
    private let held = Lock((found: Int64?.none, searched: Int64(0)))

    /// How often the pause of an item was ended.
    private let endedRests = Lock<[ItemKey: Int]>([:])

    /// How often one wait ends an item's pause: an earlier change may be uploading when the wait begins, and the item
    /// pauses again when that is done.
    private static let restsEnded = 2
    /// Dirty items read at a time.
    private static let pageSize = 500

    init(parts: MountParts, wanted: WaitRequest, tops: [ItemKey]) {
        self.parts = parts
        self.wanted = wanted
        self.tops = tops
    }

    func holds(graceIsOver: Bool) throws -> Bool {
        if wanted.uploaded || wanted.idle, !graceIsOver, try isBeingWritten() { return false }
        if wanted.uploaded || wanted.idle, parts.fileSystem.awaitsIgnoreFiles { return false }
        if wanted.uploaded, try hasPendingUpload() { return false }
        if wanted.downloaded, try hasMissingContent() { return false }
        return try !wanted.idle || parts.engine.summary().isIdle
    }

    /// Uploads the awaited changes now, also of items that pause because they change often. Items that keep changing
    /// meanwhile are throttled as usual.
    func endRests() throws {
        guard wanted.uploaded || wanted.idle else { return }
        let counts = endedRests.withLock { $0 }
        let resting = parts.engine.status.resting.filter { counts[$0, default: 0] < Self.restsEnded }
        guard !resting.isEmpty else { return }
        let rows = try parts.index.read { reader in try resting.compactMap { try reader.row(key: $0) } }
        let keys = try concerned(rows)
        endedRests.withLock { counts in for key in keys { counts[key, default: 0] += 1 } }
        if !keys.isEmpty { parts.engine.endRests(of: keys) }
    }

    /// Whether the wait depends on a decision by the user.
    func isHeldBack() throws -> Bool {
        guard wanted.uploaded || wanted.idle, parts.engine.heldDeletions > 0 else { return false }
        return try isWholeMount || parts.index.read(isWaitingForHeldOnes)
    }

    /// Whether the wait needs disk space first. It would last until the user frees space.
    func lacksRoom() throws -> Bool {
        if wanted.idle, try parts.engine.summary().lacksSpace { return true }
        guard wanted.downloaded, let key = missing.withLock({ $0 }) else { return false }
        return try isMissing(key) && parts.engine.status.lacksSpace(key)
    }

    private func isWaitingForHeldOnes(_ reader: IndexReader) throws -> Bool {
        var scope = WaitScope(tops: tops, reader: reader)
        let confirmed = try reader.confirmedDeletions()
        let known = held.withLock { $0 }
        if let found = known.found, found > confirmed,
            let row = try reader.pendingDeletions(after: found - 1, limit: 1).first, try scope.contains(row)
        {
            return true
        }
        var order = max(confirmed, known.searched)
        while true {
            let rows = try reader.pendingDeletions(after: order, limit: Self.pageSize)
            for row in rows {
                guard try !scope.contains(row) else {
                    held.withLock { [order] in $0 = (row.dirtyOrder, order) }
                    return true
                }
                order = row.dirtyOrder
            }
            guard rows.count == Self.pageSize else {
                held.withLock { [order] in $0 = (nil, order) }
                return false
            }
        }
    }

    /// The keys of the rows whose uploads the wait is for.
    func concerned(_ rows: [ItemRow]) throws -> Set<ItemKey> {
        guard !isWholeMount else { return Set(rows.map(\.key)) }
        return try parts.index.read { reader in
            var scope = WaitScope(tops: tops, reader: reader)
            return Set(try rows.filter { try scope.contains($0) }.map(\.key))
        }
    }

    /// The first awaited files whose newest content is not on this device.
    func missingContents(limit: Int) throws -> [(key: ItemKey, path: String)] {
        var found = [(key: ItemKey, path: String)]()
        for top in tops.isEmpty ? [.root] : tops {
            guard let path = try parts.tree.path(of: top) else { continue }
            for place in try parts.tree.subtree(at: path) where place.kind == .file {
                guard found.count < limit else { return found }
                if try isMissing(place.key) { found.append((place.key, place.path)) }
            }
        }
        return found
    }

    private var isWholeMount: Bool { tops.isEmpty || tops.contains(.root) || wanted.idle }

    private func isBeingWritten() throws -> Bool {
        let inodes = parts.fileSystem.writtenInodes
        if inodes.isEmpty || isWholeMount { return !inodes.isEmpty }
        return try parts.index.read { reader in
            let scope = WaitScope(tops: tops, reader: reader)
            for ino in inodes {
                if let row = try reader.row(ino: ino), try scope.isWithin(row.key) { return true }
            }
            return false
        }
    }

    private func hasPendingUpload() throws -> Bool {
        try parts.index.read { reader in
            if isWholeMount { return try reader.unsentCount() + reader.versionActionCount() > 0 }
            var scope = WaitScope(tops: tops, reader: reader)
            if let known = pending.withLock({ $0 }),
                let row = try reader.dirtyRows(after: known - 1, limit: 1).first, try scope.contains(row)
            {
                return true
            }
            for row in try reader.itemsWithVersionActions(limit: .max) where try scope.contains(row) { return true }
            return try hasPendingUpload(&scope, reader)
        }
    }

    private func hasPendingUpload(_ scope: inout WaitScope, _ reader: IndexReader) throws -> Bool {
        var order: Int64 = 0
        while true {
            let rows = try reader.dirtyRows(after: order, limit: Self.pageSize)
            for row in rows {
                order = row.dirtyOrder
                guard try scope.contains(row) else { continue }
                pending.withLock { [order] in $0 = order }
                return true
            }
            if rows.count < Self.pageSize { return false }
        }
    }

    private func hasMissingContent() throws -> Bool {
        if let key = missing.withLock({ $0 }), try isMissing(key) { return true }
        for top in tops.isEmpty ? [.root] : tops {
            guard let path = try parts.tree.path(of: top) else { continue }
            for place in try parts.tree.subtree(at: path) where place.kind == .file {
                guard try isMissing(place.key) else { continue }
                missing.withLock { $0 = place.key }
                return true
            }
        }
        return false
    }

    private func isMissing(_ key: ItemKey) throws -> Bool {
        guard let row = try parts.index.row(key: key), !row.isDeleted else { return false }
        return try parts.engine.status(of: row).downloading != .current
    }
}
