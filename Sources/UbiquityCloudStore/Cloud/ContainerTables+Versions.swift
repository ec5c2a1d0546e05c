import GRDB
internal import UbiquityCore
internal import UbiquityWire

// Queries for versions and deleted items.
extension ContainerTables {
    /// The current version, the unresolved conflicts, then the others from the newest back.
    func versions(of item: ItemRecord, limit: Int) throws -> ItemVersions {
        let rows = try fetchAll(
            """
            SELECT \(VersionRows.columnsToTell) FROM versions INDEXED BY versionsItem WHERE container = ? AND item = ?
            AND (manifest IS NOT NULL OR role NOT IN \(Cloud.expiring))
            ORDER BY role = \(VersionRecord.Role.current.rawValue) DESC,
                role = \(VersionRecord.Role.conflict.rawValue) DESC, modified DESC, id DESC LIMIT ?
            """, [Bytes(item.id.bytes), limit]
        )
        let versions = rows.compactMap { VersionRows.record($0, isWhole: false) }
        guard let current = item.version else {
            return ItemVersions(versions.map(\.remoteVersion), isIncomplete: versions.count < rows.count)
        }
        // The item decides which version is current; if that row is unreadable, the item's record describes it.
        let told = (versions.filter { $0.id == current } + versions.filter { $0.id != current }).map { version in
            var version = version
            if version.id == current { version.role = .current } else if version.role == .current {
                version.role = .history
            }
            return version.remoteVersion
        }
        let isCurrentThere = versions.contains { $0.id == current }
        let others = rows.count { $0.bytes(0).flatMap { VersionID(bytes: $0) } != current }
        return ItemVersions(told, isIncomplete: versions.count - (isCurrentThere ? 1 : 0) < others)
    }

    func manifest(ofUnreadable version: VersionID) throws -> Manifest? {
        try fetchOne("SELECT manifest FROM versions WHERE container = ? AND id = ?", [Bytes(version.bytes)])?
            .bytes(0).flatMap(VersionRows.manifest)
    }

    /// Makes an unreadable version expire like earlier versions.
    func supersede(_ version: VersionID, at now: Timestamp) throws {
        try execute(
            "UPDATE versions SET role = \(VersionRecord.Role.history.rawValue), superseded = ? "
                + "WHERE container = ? AND id = ?",
            [now.nanoseconds, container, Bytes(version.bytes)])
    }

    func history(of item: ItemID) throws -> [VersionID] {
        try fetchAll(
            "SELECT id FROM versions INDEXED BY versionsItem WHERE container = ? AND item = ? AND role = "
                + "\(VersionRecord.Role.history.rawValue) AND manifest IS NOT NULL", [Bytes(item.bytes)]
        ).compactMap { $0.bytes(0).flatMap { VersionID(bytes: $0) } }
    }

    /// Drops the oldest history of the items whose history has grown by this commit.
    func trimHistory(of plan: CommitPlan, to limit: Int) throws {
        let roles: [VersionRecord.Role] = [.history, .resolved]
        for item in Set(plan.versions.filter { roles.contains($0.role) }.map(\.item)) {
            // Never the current version, whatever its role column contains.
            let kept = """
                FROM versions INDEXED BY versionsItem WHERE container = ? AND item = ? AND role IN \(Cloud.expiring)
                AND NOT EXISTS (SELECT 1 FROM items WHERE items.container = versions.container
                    AND items.id = versions.item AND items.version = versions.id)
                AND NOT \(Cloud.isAncestorOfConflict)
                """
            let count = try fetchOne("SELECT count(*) \(kept)", [Bytes(item.bytes)])?.number(0) ?? 0
            guard count > limit else { continue }
            let old = try fetchAll(
                "SELECT id \(kept) ORDER BY superseded DESC, saved DESC, id LIMIT -1 OFFSET ?",
                [Bytes(item.bytes), limit])
            for id in old.compactMap({ $0.bytes(0).flatMap { VersionID(bytes: $0) } }) { try remove(id) }
        }
    }

    // MARK: The trash

    /// Deleted items, the most recent first: those in `folder`, or those not deleted along with their folder.
    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) throws -> TrashPage {
        var arguments: [(any DatabaseValueConvertible)?] = []
        var conditions = ["items.deleted IS NOT NULL"]
        if let folder {
            conditions.append("items.parent = ?")
            arguments.append(Bytes(folder.bytes))
        } else {
            conditions.append(
                """
                NOT EXISTS (SELECT 1 FROM items AS folder WHERE folder.container = items.container
                    AND folder.id = items.parent AND folder.deleted IS NOT NULL)
                """)
        }
        if let position {
            conditions.append("(items.deleted, items.id) < (?, ?)")
            arguments += [position.deletedAt.nanoseconds, Bytes(position.id.bytes)]
        }
        let rows = try fetchAll(
            """
            SELECT \(ItemRows.columns) FROM items INDEXED BY \(folder == nil ? "itemsDeleted" : "itemsDeletedIn")
            WHERE items.container = ? AND \(conditions.joined(separator: " AND "))
            ORDER BY items.deleted DESC, items.id DESC LIMIT ?
            """, arguments + [limit + 1])
        // Damaged rows are omitted; the next page begins after the last item of this one.
        var items = [TrashedItem](), bytes = 0, paths: [ItemID: String] = [.root: ""]
        for row in rows where items.count < limit {
            guard bytes < Limits.maximumPageBytes else { return TrashPage(items: items, hasMore: true) }
            guard let record = ItemRows.record(row) else { continue }
            let item = try trashed(record, &paths)
            items.append(item)
            bytes += item.item.pageBytes + item.path.utf8.count
        }
        return TrashPage(items: items, hasMore: !items.isEmpty && rows.count > limit)
    }

    private func trashed(_ record: ItemRecord, _ paths: inout [ItemID: String]) throws -> TrashedItem {
        let folder = try path(ofFolder: record.parent, &paths), name = record.name.description
        return TrashedItem(
            item: record.remoteItem(try record.version.flatMap(version), conflicts: []),
            deletedAt: record.deletedAt ?? .zero, device: record.stamps.existence.device,
            path: folder.isEmpty ? name : "\(folder)/\(name)")
    }

    /// - Parameter paths: known paths; each folder is looked up once.
    private func path(ofFolder id: ItemID, _ paths: inout [ItemID: String]) throws -> String {
        if let known = paths[id] { return known }
        var names = [String](), next = id
        while next != .root, names.count < Limits.maximumDepth, let folder = try item(next) {
            names.append(folder.name.description)
            next = folder.parent
        }
        let path = names.reversed().joined(separator: "/")
        paths[id] = path
        return path
    }
}
