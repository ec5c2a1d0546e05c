import GRDB
internal import UbiquityCore
internal import UbiquityWire

/// The tables `links` and `linkFiles`, within one access to the database.
struct LinkTables {
    let db: Database

    private static let entryColumns = """
        links.number, containers.name, links.item, links.name, links.isFolder, links.version, links.size, links.files,
        links.created, links.expires, links.password IS NOT NULL, links.downloads, links.used
        """

    // MARK: For the account

    func entry(_ number: Int64) throws -> LinkEntry {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT \(Self.entryColumns) FROM links JOIN containers ON containers.number = links.container
                WHERE links.number = ?
                """, arguments: [number])
        guard let row else { throw UbiquityError(.notFound, "there is no such link") }
        return Self.entry(row)
    }

    func entries(in container: Int64, to item: ItemID?, _ now: Timestamp) throws -> [LinkEntry] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT \(Self.entryColumns) FROM links JOIN containers ON containers.number = links.container
                WHERE links.container = ?1 AND links.ended IS NULL AND links.expires > ?2
                AND (?3 IS NULL OR links.item = ?3) ORDER BY links.number DESC
                """, arguments: [container, now.nanoseconds, item.map { Bytes($0.bytes) }]
        ).map(Self.entry)
    }

    private static func entry(_ row: Row) -> LinkEntry {
        LinkEntry(
            id: "\(row.number(0) ?? 0)", container: row.text(1) ?? "",
            item: row.bytes(2).flatMap { ItemID(bytes: $0) }?.description ?? "",
            name: String(decoding: row.bytes(3) ?? [], as: UTF8.self), isFolder: row.number(4) == 1,
            version: row.bytes(5).flatMap { VersionID(bytes: $0) }?.description, size: row.number(6) ?? 0,
            files: Int(row.number(7) ?? 0), created: row.time(8).inSeconds, expires: row.time(9).inSeconds,
            hasPassword: row.number(10) == 1, downloads: Int(row.number(11) ?? 0),
            lastDownload: row.number(12).map { Timestamp(nanoseconds: $0).inSeconds })
    }

    /// The number of links in force to each item that has any. Expired links count until the upkeep ends them.
    func counts(in container: Int64) throws -> [ItemID: Int] {
        let rows = try Row.fetchAll(
            db, sql: """
                SELECT item, count(*) FROM links INDEXED BY linksItem
                WHERE container = ? AND ended IS NULL GROUP BY item
                """, arguments: [container])
        var counts: [ItemID: Int] = [:]
        for row in rows {
            if let item = row.bytes(0).flatMap({ ItemID(bytes: $0) }) { counts[item] = Int(row.number(1) ?? 0) }
        }
        return counts
    }

    // MARK: For visitors

    /// - Throws: `EndedLink`.
    /// - Returns: nil if there never was such a link.
    func link(hash: [UInt8], at now: Timestamp) throws -> PublishedLink? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT links.number, links.name, isFolder, size, files, saved, expires, password IS NOT NULL,
                links.account, containers.name, ended FROM links JOIN containers ON containers.number = links.container
                WHERE hash = ?
                """, arguments: [Bytes(hash)])
        guard let row, let number = row.number(0), let name = row.bytes(1).flatMap({ try? ItemName($0) }),
            let container = row.text(9).flatMap(ContainerID.init)
        else { return nil }
        guard row.number(10) == nil, row.time(6) > now else { throw EndedLink(number: number) }
        return PublishedLink(
            number: number, name: name, isFolder: row.number(2) == 1, size: row.number(3) ?? 0,
            files: Int(row.number(4) ?? 0), savedAt: row.time(5), expires: row.time(6),
            hasPassword: row.number(7) == 1, mark: Hex.encode(hash.prefix(8)), account: row.number(8) ?? 0,
            container: container)
    }

    func isInForce(_ number: Int64, at now: Timestamp) throws -> Bool {
        try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT 1 FROM links WHERE number = ? AND ended IS NULL AND expires > ?"),
            arguments: [number, now.nanoseconds]) != nil
    }

    func password(of number: Int64) throws -> LinkPassword? {
        let row = try Row.fetchOne(
            db, sql: "SELECT salt, rounds, password FROM links WHERE number = ?", arguments: [number])
        guard let row, let salt = row.bytes(0), let rounds = row.number(1), let hash = row.bytes(2) else { return nil }
        return LinkPassword(salt: salt, rounds: Int(clamping: rounds), hash: hash)
    }

    // MARK: Files

    func put(_ entries: [LinkSnapshot.Entry], of number: Int64, in container: Int64) throws {
        try db.execute(sql: "UPDATE links SET entries = ? WHERE number = ?", arguments: [entries.count, number])
        for (position, entry) in entries.enumerated() {
            let path = entry.file.path.map(\.bytes).joined(separator: [UInt8(ascii: "/")])
            try db.cachedStatement(
                sql: """
                    INSERT INTO linkFiles (link, position, container, item, path, kind, modified, size, target,
                    manifest) VALUES (?,?,?,?,?,?,?,?,?,?)
                    """
            ).execute(arguments: [
                number, position, container, Bytes(entry.item.bytes), Bytes(Array(path)),
                Int64(entry.file.kind.rawValue), entry.file.modifiedAt.nanoseconds, entry.file.size,
                entry.file.linkTarget.isEmpty ? nil : Bytes(entry.file.linkTarget), entry.manifest.map(Bytes.init),
            ])
        }
    }

    func files(of number: Int64) throws -> [LinkedFile] {
        try Row.fetchAll(
            db, sql: """
                SELECT path, kind, modified, size, target, manifest FROM linkFiles WHERE link = ? ORDER BY position
                """, arguments: [number]
        ).map { row in
            let path = (row.bytes(0) ?? []).split(separator: UInt8(ascii: "/")).compactMap { try? ItemName(Array($0)) }
            let manifest = row.bytes(5).map(VersionRows.manifest)
            guard !path.isEmpty, let kind = ItemKind(rawValue: UInt8(clamping: row.number(1) ?? 0)),
                kind != .file || manifest != nil, let chunks = manifest ?? [], let size = row.number(3),
                chunks.reduce(0, { $0 + Int64($1.length) }) == size
            else { throw BlobReader.damaged }
            return LinkedFile(
                path: path, kind: kind, modifiedAt: row.time(2), size: size, linkTarget: row.bytes(4) ?? [],
                manifest: chunks)
        }
    }

    // MARK: Ends

    func end(_ number: Int64, at now: Timestamp) throws {
        try db.execute(sql: "UPDATE links SET ended = ? WHERE number = ?", arguments: [now.nanoseconds, number])
    }

    /// Ends the links that contain an item whose contents are removed for ever.
    func endLinks(
        containing item: Bytes, in container: Int64, at now: Timestamp, _ random: any RandomSource
    ) throws {
        try db.execute(
            sql: """
                UPDATE links SET ended = ? WHERE ended IS NULL
                AND number IN (SELECT link FROM linkFiles INDEXED BY linkFilesItem WHERE container = ? AND item = ?)
                """, arguments: [now.nanoseconds, container, item])
        guard db.changesCount > 0,
            let revision = try Int64.fetchOne(
                db, sql: "SELECT revision FROM containers WHERE number = ?", arguments: [container])
        else { return }
        // Devices read it with their next look at the feed.
        _ = try announceChange(in: container, at: Revision(revision), random)
    }

    /// - Returns: the containers with their new revisions.
    func endExpired(at now: Timestamp, _ random: any RandomSource) throws -> [(Int64, Revision)] {
        let containers = try Int64.fetchAll(
            db, sql: "SELECT DISTINCT container FROM links WHERE ended IS NULL AND expires <= ?",
            arguments: [now.nanoseconds])
        guard !containers.isEmpty else { return [] }
        try db.execute(
            sql: "UPDATE links SET ended = expires WHERE ended IS NULL AND expires <= ?", arguments: [now.nanoseconds])
        return try containers.compactMap { container in
            let number = try Int64.fetchOne(
                db, sql: "SELECT revision FROM containers WHERE number = ?", arguments: [container])
            guard let number else { return nil }
            return (container, try announceChange(in: container, at: Revision(number), random))
        }
    }

    /// Drops a batch of rows of ended links.
    /// - Returns: whether there may be more.
    func dropFilesOfEnded() throws -> Bool {
        try db.execute(
            sql: """
                DELETE FROM linkFiles WHERE (link, position) IN (SELECT linkFiles.link, linkFiles.position FROM links
                JOIN linkFiles ON linkFiles.link = links.number WHERE links.ended IS NOT NULL LIMIT ?)
                """, arguments: [CloudLimits.maintenanceBatch])
        return db.changesCount == CloudLimits.maintenanceBatch
    }

    /// Forgets the oldest ended links of each account.
    func forgetOldest() throws {
        let accounts = try Int64.fetchAll(db, sql: "SELECT DISTINCT account FROM links WHERE ended IS NOT NULL")
        for account in accounts {
            try db.execute(
                sql: """
                    DELETE FROM links WHERE number IN (SELECT number FROM links
                    WHERE account = ? AND ended IS NOT NULL ORDER BY number DESC LIMIT -1 OFFSET ?)
                    """, arguments: [account, CloudLimits.keptEndedLinks])
        }
    }

    // MARK: Revisions

    /// The container's revision at which its links last changed.
    func revision(of container: Int64) throws -> Revision {
        Revision(
            try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT linksRevision FROM containers WHERE number = ?"),
                arguments: [container]) ?? 0)
    }

    /// Makes a revision of the container that changes its links and no item.
    func announceChange(in container: Int64, at revision: Revision, _ random: any RandomSource) throws -> Revision {
        let next = revision.next
        let request = RequestID(high: random.next(), low: random.next())
        try ContainerTables(db: db, container: container).keep([], at: next, mark: max(1, random.next()), for: request)
        try db.execute(
            sql: "UPDATE containers SET linksRevision = ? WHERE number = ?", arguments: [next.number, container])
        return next
    }
}
