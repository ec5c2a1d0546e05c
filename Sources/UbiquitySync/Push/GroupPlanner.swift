internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Plans a group of changes in one transaction. It marks the rows in the index first, and removes rows that the cloud
/// never saw.
///
/// It holds nothing. The gatherer and `PackageSync` call it. It knows the context and the pure `Planner`.
struct GroupPlanner: SyncRoom {
    let context: SyncContext

    /// Draws version ids, removes rows that the cloud never saw, and plans the group.
    func plan(
        _ rows: [ItemRow], _ prepared: [ItemKey: PreparedContent], limit: Int, deletionsUpTo: Int64,
        leavingPackages: Bool = false
    ) throws -> [PlannedChange] {
        let (group, dropped) = try index.write(.remote) { transaction in
            var drawn = [VersionID]()
            for row in rows where row.isToBeMarked {
                guard var current = try transaction.row(key: row.key), current.isToBeMarked else { continue }
                let before = current
                if current.bringsIntoBeing { current.flags.insert(.creationSent) }
                if current.dirty.contains(.content), current.nextVersion == nil {
                    var generator = SourcedGenerator(random)
                    let version = VersionID(using: &generator)
                    drawn.append(version)
                    current.nextVersion = version
                }
                try transaction.update(current, before: before)
            }
            try transaction.noteSent(drawn)
            var finder = PackageFinder(transaction, index)
            // A program may have changed rows since the selection. Rows deleted since then are not planned.
            let now = timekeeper.now()
            var planner = Planner(
                transaction.reader, prepared: prepared, limit: limit, deletionsUpTo: deletionsUpTo,
                completesDeletions: configuration.completesDeletions,
                isOwned: { row in
                    guard leavingPackages else { return false }
                    return try finder.package(of: row) != nil || !finder.packages(changedBy: row).isEmpty
                },
                isAwaited: { [problems] other, row in
                    // Only for a limited time: a package may be in use or refused, and deletions may be on hold.
                    problems.problem(.upload, of: other.key) == nil
                        && row.dirtyAt.advanced(bySeconds: SyncLimits.patience / .seconds(1)) > now
                },
                // Changes of a package are sent together or not at all.
                isRefused: { [problems] row in leavingPackages && problems.problem(.upload, of: row.key) != nil })
            for row in rows where !planner.isFull {
                if let current = try transaction.row(key: row.key) { try planner.add(current) }
            }
            for row in planner.forgettable {
                try transaction.delete(row)
                problems.clear(.upload, of: row.key)
            }
            var settler = settler(transaction)
            for row in planner.unchanged {
                var clean = row
                clean.dirty = []
                try transaction.update(clean, before: row)
                try settler.review(row.id)
            }
            return (planner.group, settler.dropped)
        }
        discard(dropped)
        return group
    }
}
