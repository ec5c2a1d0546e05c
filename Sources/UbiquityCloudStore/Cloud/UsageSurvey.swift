import GRDB
internal import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// Finds what an account takes on the cloud's disk, by container and document.
///
/// It reads all manifests of the account. A content counts for the first version that has it: live ones come before
/// earlier ones, and those before the trash. So the sums add up to the files and rows, however often a content is used.
package struct UsageSurvey: Sendable {
    let cloud: Cloud

    /// - Throws: `.notFound`.
    package func usage(of account: String) async throws -> AccountUsage {
        let number = try await cloud.pool.run { [cloud] in try cloud.account(named: account) }
        // One survey at a time: it keeps a reader of the database and reads a lot.
        return try await cloud.checks.run(for: number) {
            try await cloud.pool.run { [cloud] in
                let files = try cloud.existingChunks(of: number)?.storedBytes() ?? 0
                let database = try databaseBytes()
                return try cloud.read { try measure(number, account, files: files, database: database, $0) }
            }
        }
    }

    /// Bytes of the database and its log.
    private func databaseBytes() throws -> Int64 {
        let path = Path.join(cloud.folder, "metadata.db")
        return try describing("look at the cloud's database", at: path) { () throws(Errno) in
            var bytes = try FileSystem.status(path).size
            do throws(Errno) { bytes += try FileSystem.status(path + "-wal").size } catch .ENOENT {}
            return bytes
        }
    }

    private func measure(
        _ account: Int64, _ name: String, files: Int64, database: Int64, _ db: Database
    ) throws -> AccountUsage {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT quota, used, stored, (SELECT sum(stored) FROM accounts),
                    (SELECT coalesce(sum(length(bytes)), 0) FROM smallChunks WHERE account = ?1)
                FROM accounts WHERE number = ?1
                """, arguments: [account])
        guard let row else { throw UbiquityError(.notFound, "there is no account of this name", at: name) }
        let (stored, all, small) = (row.number(2) ?? 0, row.number(3) ?? 0, row.number(4) ?? 0)
        var containers = try Row.fetchAll(
            db, sql: "SELECT number, name, displayName FROM containers WHERE account = ? ORDER BY name",
            arguments: [account]
        ).map { row in
            let number = row.number(0) ?? 0
            return try Survey(
                number: number, name: row.text(1) ?? "", displayName: row.text(2), documents: documents(number, db))
        }
        var seen = Set<ChunkID>(), sums = UsageSums()
        for kind in Kind.allCases {
            for index in containers.indices { try add(kind, to: &containers[index], &seen, db) }
            sums[keyPath: kind.sum] = containers.reduce(0) { $0 + $1.all[keyPath: kind.sum] }
        }
        let share = all > 0 ? Int64(Double(database) * Double(stored) / Double(all)) : 0
        return AccountUsage(
            account: name, quota: row.number(0) ?? 0, counted: max(0, row.number(1) ?? 0), bytes: sums,
            unused: max(0, files + small - sums.total), database: max(0, share - small),
            containers: containers.map(\.usage))
    }

    /// The kinds of versions. A content counts for the first kind that has it.
    private enum Kind: CaseIterable {
        case live, earlierVersions, trash

        var sum: WritableKeyPath<UsageSums, Int64> {
            switch self {
            case .live: \.live
            case .earlierVersions: \.earlierVersions
            case .trash: \.trash
            }
        }

        var condition: String {
            let conflict = VersionRecord.Role.conflict.rawValue
            return switch self {
            case .live: "items.deleted IS NULL AND (items.version = versions.id OR role = \(conflict))"
            case .earlierVersions:
                "items.deleted IS NULL AND items.version IS NOT versions.id AND role <> \(conflict)"
            case .trash: "items.deleted IS NOT NULL"
            }
        }
    }

    private struct Survey {
        let number: Int64
        let name: String
        let displayName: String?
        /// The document of each item in it.
        let documents: Documents
        var all = UsageSums()
        var byDocument: [ItemID: UsageSums] = [:]

        init(number: Int64, name: String, displayName: String?, documents: Documents) {
            self.number = number
            self.name = name
            self.displayName = displayName
            self.documents = documents
        }

        var usage: ContainerUsage {
            let sorted = byDocument.map { DocumentUsage(name: documents.names[$0.key] ?? "", bytes: $0.value) }
                .sorted { ($1.bytes.total, $0.name) < ($0.bytes.total, $1.name) }
            let listed = Array(sorted.prefix(CloudLimits.listedDocuments))
            var others = all
            for document in listed {
                others.live -= document.bytes.live
                others.earlierVersions -= document.bytes.earlierVersions
                others.trash -= document.bytes.trash
            }
            return ContainerUsage(
                name: name, displayName: displayName, bytes: all, documents: listed, others: others)
        }
    }

    private struct Documents {
        var names: [ItemID: String] = [:]
        var documentOf: [ItemID: ItemID] = [:]
    }

    private func add(_ kind: Kind, to survey: inout Survey, _ seen: inout Set<ChunkID>, _ db: Database) throws {
        // A state that a link keeps counts as an earlier version.
        let linked = """
            UNION ALL SELECT linkFiles.item, manifest FROM linkFiles JOIN links ON links.number = linkFiles.link
            WHERE linkFiles.container = ?1 AND links.ended IS NULL AND manifest IS NOT NULL
            """
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT versions.item, manifest FROM versions
                JOIN items ON items.container = versions.container AND items.id = versions.item
                WHERE versions.container = ?1 AND manifest IS NOT NULL AND \(kind.condition)
                \(kind == .earlierVersions ? linked : "")
                """, arguments: [survey.number])
        while let row = try rows.next() {
            // A damaged manifest counts with the unused contents.
            guard let manifest = row.bytes(1).flatMap(VersionRows.manifest) else { continue }
            var bytes: Int64 = 0
            for chunk in manifest where seen.insert(chunk.id).inserted { bytes += Int64(chunk.length) }
            survey.all[keyPath: kind.sum] += bytes
            guard let item = row.bytes(0).flatMap({ ItemID(bytes: $0) }),
                let document = survey.documents.documentOf[item]
            else { continue }
            survey.byDocument[document, default: UsageSums()][keyPath: kind.sum] += bytes
        }
    }

    /// The items below the folder `Documents` of the top folder, deleted ones included. The names of other folders are
    /// private to their app.
    private func documents(_ container: Int64, _ db: Database) throws -> Documents {
        var documents = Documents()
        for condition in ["deleted IS NULL", "deleted IS NOT NULL"] {
            let tops = try Row.fetchAll(
                db, sql: "SELECT id FROM items WHERE container = ? AND parent = ? AND name = ? AND \(condition)",
                arguments: [container, Bytes(ItemID.root.bytes), Bytes(Array("Documents".utf8))])
            for top in tops.compactMap({ $0.bytes(0).flatMap { ItemID(bytes: $0) } }) {
                for (id, name) in try children(of: top, container, db) {
                    documents.names[id] = name
                    documents.documentOf[id] = id
                    var next = [id]
                    while let folder = next.popLast() {
                        for (child, _) in try children(of: folder, container, db)
                        where documents.documentOf.updateValue(id, forKey: child) == nil { next.append(child) }
                    }
                }
            }
        }
        return documents
    }

    private func children(of folder: ItemID, _ container: Int64, _ db: Database) throws -> [(ItemID, String)] {
        let live = "SELECT id, name FROM items INDEXED BY itemsPlace "
            + "WHERE container = ?1 AND parent = ?2 AND deleted IS NULL"
        let deleted = "SELECT id, name FROM items INDEXED BY itemsDeletedIn "
            + "WHERE container = ?1 AND parent = ?2 AND deleted IS NOT NULL"
        return try Row.fetchAll(
            db.cachedStatement(sql: "\(live) UNION ALL \(deleted)"), arguments: [container, Bytes(folder.bytes)]
        ).compactMap { row in
            row.bytes(0).flatMap { ItemID(bytes: $0) }.map { ($0, String(decoding: row.bytes(1) ?? [], as: UTF8.self)) }
        }
    }
}
