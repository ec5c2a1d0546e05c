import GRDB
internal import Logging
package import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// A row of a container's tree that no commit makes, for example a hard link that leads to itself.
package struct TreeFinding: Hashable, Sendable {
    package var container: ContainerID
    package var item: ItemID
    package var detail: String
    package var isMended: Bool
}

extension Cloud {
    /// Looks at the trees of all containers and mends what is wrong, in commits of its own: devices get the mended
    /// records with their feed. The upkeep calls it first.
    package func examineTrees() async throws -> [TreeFinding] {
        let containers = try await pool.run { [self] in
            try read { db in
                try Row.fetchAll(db, sql: "SELECT account, name FROM containers").compactMap { row in
                    row.number(0).flatMap { account in
                        row.text(1).flatMap { ContainerID($0) }.map {
                            ContainerService(cloud: self, account: account, container: $0)
                        }
                    }
                }
            }
        }
        var findings = [TreeFinding]()
        for container in containers { findings += try await TreeExamination(service: container).run() }
        for finding in findings {
            logger.warning(
                "a damaged row: \(finding.detail)",
                metadata: [
                    "container": "\(finding.container)", "item": "\(finding.item)", "mended": "\(finding.isMended)",
                ])
        }
        return findings
    }
}

/// Examines the tree of one container.
struct TreeExamination {
    let service: ContainerService

    /// Changes of one commit.
    private static let batch = 100
    private static let device = DeviceID(high: 0, low: 0)

    private struct Problem {
        var item: ItemID
        var detail: String
        var repair: Repair
    }

    private enum Repair {
        case become(ItemKind)
        case leadTo(ItemID)
        case delete, moveToTop
    }

    /// Kinds first: links and places are judged by them.
    func run() async throws -> [TreeFinding] {
        var findings = [TreeFinding]()
        let looks: [@Sendable (ContainerTables) throws -> [Problem]] = [Self.kinds, Self.links, Self.places]
        for look in looks {
            let problems = try await service.cloud.pool.run { [service] in
                try service.cloud.read { db in
                    try service.find(db).map { try look(ContainerTables(db: db, container: $0.number)) } ?? []
                }
            }
            for start in stride(from: 0, to: problems.count, by: Self.batch) {
                let part = problems[start..<min(start + Self.batch, problems.count)]
                let mended = try await mend(Array(part))
                findings += part.map {
                    TreeFinding(
                        container: service.container, item: $0.item, detail: $0.detail,
                        isMended: mended.contains($0.item))
                }
            }
        }
        return findings
    }

    // MARK: Finding

    /// Items whose kind does not go with their fields. A file, and nothing else, has a version; a link, and nothing
    /// else, has a target.
    @Sendable private static func kinds(_ tables: ContainerTables) throws -> [Problem] {
        try tables.fetchAll(
            """
            SELECT id, kind, version IS NOT NULL, link IS NOT NULL, length(link), EXISTS (
                SELECT 1 FROM versions INDEXED BY versionsItem
                WHERE versions.container = items.container AND item = items.id
                AND role = \(VersionRecord.Role.current.rawValue)) FROM items
            WHERE container = ? AND typeof(id) = 'blob' AND typeof(kind) = 'integer' AND NOT (
                kind = 1 AND version IS NOT NULL AND link IS NULL
                OR kind = 2 AND version IS NULL AND link IS NULL
                OR kind = 3 AND version IS NULL AND link IS NOT NULL
                OR kind = 4 AND version IS NULL AND length(coalesce(link, x'')) = 16)
            """, []
        ).compactMap { row in
            let isKnown = row.number(1).flatMap { ItemKind(rawValue: UInt8(clamping: $0)) }.map { "\($0)" }
            let kind: ItemKind
            // A file that lost its version: the device that has it sends it again.
            guard row.number(2) == 1 || row.number(5) == 0 else { return nil }
            switch (row.number(2), row.number(3)) {
            case (1, 0): kind = .file
            case (0, 1): kind = row.number(4) == 16 && row.number(1) != 4 ? .hardLink : .symlink
            case (0, 0): kind = .directory
            default: return nil
            }
            return ItemID(bytes: row.bytes(0) ?? []).map {
                Problem(
                    item: $0, detail: "the fields of a \(kind) in a \(isKnown ?? "row of no kind")",
                    repair: .become(kind))
            }
        }
    }

    /// Hard links to anything but a file or a symlink. A link to a link gets the file at the end of the chain;
    /// the others are deleted. (A link to an unknown item stays: the device that has the item sends it again.)
    @Sendable private static func links(_ tables: ContainerTables) throws -> [Problem] {
        try tables.fetchAll(
            """
            SELECT item.id, target.id, target.kind FROM items AS item INDEXED BY itemsLinks
            JOIN items AS target ON target.container = item.container AND target.id = item.link
            WHERE item.container = ? AND item.kind = 4 AND item.deleted IS NULL AND target.kind IN (2, 4)
            """, []
        ).compactMap { row in
            guard let item = ItemID(bytes: row.bytes(0) ?? []), let target = ItemID(bytes: row.bytes(1) ?? []) else {
                return nil
            }
            guard row.number(2) == 4 else {
                return Problem(item: item, detail: "a hard link to a folder", repair: .delete)
            }
            guard target != item else {
                return Problem(item: item, detail: "a hard link to itself", repair: .delete)
            }
            let end = try end(of: target, tables)
            return Problem(
                item: item, detail: "a hard link to a hard link", repair: end.map { .leadTo($0) } ?? .delete)
        }
    }

    /// Where a chain of hard links ends; nil if it does not lead to a file or a symlink.
    private static func end(of link: ItemID, _ tables: ContainerTables) throws -> ItemID? {
        var next = link, seen = Set<ItemID>()
        while seen.insert(next).inserted, let row = try tables.fetchOne(
            "SELECT kind, link FROM items WHERE container = ? AND id = ?", [Bytes(next.bytes)])
        {
            switch row.number(0) {
            case 1, 3: return next
            case 4:
                guard let target = row.bytes(1).flatMap({ ItemID(bytes: $0) }) else { return nil }
                next = target
            default: return nil
            }
        }
        return nil
    }

    /// Items in an item that is not a folder, and folders in a circle. The folder of a circle that was moved last is
    /// moved to the top folder.
    @Sendable private static func places(_ tables: ContainerTables) throws -> [Problem] {
        let strays = try tables.fetchAll(
            """
            SELECT item.id FROM items AS item
            JOIN items AS parent ON parent.container = item.container AND parent.id = item.parent
            WHERE item.container = ? AND item.id <> ? AND item.kind <> 2 AND parent.kind <> 2
            """, [Bytes(ItemID.root.bytes)]
        ).compactMap { ItemID(bytes: $0.bytes(0) ?? []) }
        let inFolders = strays.map {
            Problem(item: $0, detail: "an item in an item that is not a folder", repair: .moveToTop)
        }
        return inFolders + (try circles(tables))
    }

    private static func circles(_ tables: ContainerTables) throws -> [Problem] {
        var folders = [ItemID: (parent: ItemID, revision: Int64)]()
        let rows = try Row.fetchCursor(
            tables.db, sql: "SELECT id, parent, revision FROM items WHERE container = ? AND kind = 2",
            arguments: [tables.container])
        while let row = try rows.next() {
            guard let id = ItemID(bytes: row.bytes(0) ?? []), let parent = ItemID(bytes: row.bytes(1) ?? []),
                id != .root
            else { continue }
            folders[id] = (parent, row.number(2) ?? 0)
        }
        var seen = Set<ItemID>(), problems = [Problem]()
        for folder in folders.keys.sorted() {
            var path = [ItemID](), next = folder
            while let known = folders[next], seen.insert(next).inserted {
                path.append(next)
                next = known.parent
            }
            // Met on this way: a circle. Met on an earlier one: that has found its circle.
            guard let start = path.firstIndex(of: next) else { continue }
            let circle = path[start...]
            let last = circle.max { (folders[$0]?.revision ?? 0, $0) < (folders[$1]?.revision ?? 0, $1) }
            let detail = circle.count == 1 ? "a folder in itself" : "a circle of \(circle.count) folders"
            if let last { problems.append(Problem(item: last, detail: detail, repair: .moveToTop)) }
        }
        return problems
    }

    // MARK: Mending

    /// - Returns: The items that are sound now.
    private func mend(_ problems: [Problem]) async throws -> Set<ItemID> {
        var mended = Set<ItemID>()
        do {
            for problem in problems {
                guard case .become(let kind) = problem.repair else { continue }
                do { try await become(kind, problem.item) } catch let error as UbiquityError
                    where error.code == .damaged
                {
                    // More of the row is damaged.
                    continue
                }
                mended.insert(problem.item)
            }
            let changes = try await service.cloud.pool.run { [service] in
                try service.cloud.read { db in
                    let tables = ContainerTables(db: db, container: try service.required(db).number)
                    return try problems.compactMap { try change($0, tables) }
                }
            }
            guard !changes.isEmpty else { return mended }
            let request = CommitRequest(
                id: requestID(), device: Self.device, deviceName: "cloud", changes: changes)
            _ = try await service.commit(request)
            mended.formUnion(changes.map(\.id))
        } catch let error as UbiquityError where error.code == .cancelled {
            throw error
        } catch {
            try Task.checkCancellation()
            // The next round tries again.
            service.cloud.logger.warning("cannot repair damaged rows", metadata: ["reason": "\(error)"])
        }
        return mended
    }

    private func requestID() -> RequestID {
        RequestID(high: service.cloud.random.next(), low: service.cloud.random.next())
    }

    private func change(_ problem: Problem, _ tables: ContainerTables) throws -> ItemChange? {
        if case .become = problem.repair { return nil }
        guard let record = try readable(problem.item, tables) else { return nil }
        let action: ItemChange.Action
        switch problem.repair {
        case .become: return nil
        case .delete: action = .delete
        case .leadTo(let target): action = .put(ChangedFields(linkTarget: target.bytes))
        case .moveToTop: action = .put(ChangedFields(place: Place(parent: .root, name: record.name)))
        }
        return ItemChange(
            id: record.id, kind: record.kind, baseRevision: record.revision, changedAt: service.cloud.timekeeper.now(),
            action: action)
    }

    /// Nil if it has gone meanwhile, or more of it is damaged: the device that knows it sends it again.
    private func readable(_ item: ItemID, _ tables: ContainerTables) throws -> ItemRecord? {
        do { return try tables.item(item) } catch let error as UbiquityError where error.code == .damaged { return nil }
    }

    /// Changes the row itself, because no commit changes a kind. All else about the item stays.
    private func become(_ kind: ItemKind, _ item: ItemID) async throws {
        let (number, revision) = try await service.cloud.pool.run { [service] in
            try service.cloud.write { db in
                let found = try service.required(db)
                let tables = ContainerTables(db: db, container: found.number), revision = found.revision.next
                try tables.keep([], at: revision, mark: max(1, service.cloud.random.next()), for: requestID())
                try tables.execute(
                    "UPDATE items SET kind = ?, revision = ? WHERE container = ? AND id = ?",
                    [Int64(kind.rawValue), revision.number, found.number, Bytes(item.bytes)])
                // Throws if the row cannot be read with this kind either.
                _ = try tables.item(item)
                return (found.number, revision)
            }
        }
        service.cloud.news.tell(revision, of: number)
    }
}
