import Crypto
import GRDB
internal import Logging
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The links of the accounts: read access to one state of a file or a folder, for anybody with the URL.
///
/// A link keeps its own list of files with their chunks. So it shows no later change, and the content stays for as long
/// as the link is in force, though the history may drop the version. The cloud stores the SHA-256 of a link's secret,
/// not the secret. A link ends when it expires, when it is revoked, and when its item is deleted (the trigger
/// `linksOfDeletedItems`). The row of an ended link stays for a while, so that a visitor reads that it has ended.
package struct Links: Sendable {
    let cloud: Cloud

    // MARK: For the account

    /// Creates a link to an item.
    /// - Parameter passwordRounds: hash rounds of a password.
    /// - Throws: `.notFound`, `.notUploadedYet`, `.notSupported`, `.invalid`, `.tooLarge`.
    package func create(
        _ request: LinkRequest, in container: ContainerID, of account: String,
        passwordRounds: Int = CloudLimits.linkPasswordRounds
    ) async throws -> NewLink {
        let lifetime = try Self.lifetime(request), item = try Self.item(request)
        let version = try Self.version(request), secret = Self.secret(cloud.random)
        let password = try Self.checked(request.password)
        let (number, entry, revision) = try await cloud.pool.run { [cloud] in
            let service = ContainerService(
                cloud: cloud, account: try cloud.account(named: account), container: container)
            let stored = password.map {
                LinkPassword($0, salt: Array(Self.secret(cloud.random).utf8), rounds: passwordRounds)
            }
            return try cloud.write { db in
                let found = try service.required(db), now = cloud.timekeeper.now()
                let tables = ContainerTables(db: db, container: found.number)
                guard item != .root else {
                    throw UbiquityError(
                        .notSupported, "the top folder cannot be published", remedy: "publish a folder in it")
                }
                guard let record = try tables.item(item), record.isLive else {
                    throw UbiquityError(.notFound, "there is no such item", at: item.description)
                }
                try requireFree(service.account, db)
                let snapshot = try LinkSnapshot(of: record, version: version, tables)
                try requireFree(snapshot, service.account, db)
                try db.execute(
                    sql: """
                        INSERT INTO links (hash, account, container, item, name, isFolder, version, size, files, saved,
                        created, expires, salt, rounds, password) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
                        """,
                    arguments: [
                        Bytes(Self.hash(secret)), service.account, found.number, Bytes(item.bytes),
                        Bytes(record.name.bytes), record.kind == .directory ? 1 : 0,
                        (record.kind == .directory ? nil : version ?? record.version).map { Bytes($0.bytes) },
                        snapshot.size, snapshot.files.count { $0.file.kind == .file }, snapshot.savedAt.nanoseconds,
                        now.nanoseconds, now.advanced(bySeconds: lifetime).nanoseconds,
                        stored.map { Bytes($0.salt) }, stored?.rounds, stored.map { Bytes($0.hash) },
                    ])
                let number = db.lastInsertedRowID
                try LinkTables(db: db).put(snapshot.files, of: number, in: found.number)
                let revision = try LinkTables(db: db)
                    .announceChange(in: found.number, at: found.revision, cloud.random)
                return (found.number, try LinkTables(db: db).entry(number), revision)
            }
        }
        cloud.news.tell(revision, of: number)
        cloud.logger.info(
            "link created", metadata: ["account": "\(account)", "link": "\(entry.id)", "files": "\(entry.files)"])
        return NewLink(link: entry, path: LinkPath.path(of: secret))
    }

    /// The links of a container that are in force, the newest first.
    /// - Parameter item: only those to this item.
    /// - Throws: `.notFound`.
    package func list(
        in container: ContainerID, of account: String, to item: ItemID? = nil
    ) async throws -> [LinkEntry] {
        try await cloud.pool.run { [cloud] in
            let service = ContainerService(
                cloud: cloud, account: try cloud.account(named: account), container: container)
            let now = cloud.timekeeper.now()
            return try cloud.read { db in
                // A container that no device has opened yet has no links.
                guard let found = try service.find(db) else { return [] }
                return try LinkTables(db: db).entries(in: found.number, to: item, now)
            }
        }
    }

    /// Revokes a link. Downloads in progress end.
    /// - Parameter link: its number, its secret, or its URL.
    /// - Throws: `.notFound` if the container has no such link in force.
    package func revoke(_ link: String, in container: ContainerID, of account: String) async throws {
        let (announced, revision, ended) = try await cloud.pool.run { [cloud] in
            let service = ContainerService(
                cloud: cloud, account: try cloud.account(named: account), container: container)
            return try cloud.write { db in
                let found = try service.required(db)
                let now = cloud.timekeeper.now()
                guard let number = try Self.number(link, in: found.number, db) else {
                    throw UbiquityError(
                        .notFound, "there is no such link in force", at: link,
                        remedy: "'ubiquity publish list' lists them")
                }
                let tables = LinkTables(db: db)
                try tables.end(number, at: now)
                let revision = try tables.announceChange(in: found.number, at: found.revision, cloud.random)
                return (found.number, revision, number)
            }
        }
        cloud.news.tell(revision, of: announced)
        cloud.logger.info("link revoked", metadata: ["account": "\(account)", "link": "\(ended)"])
    }

    private static func number(_ link: String, in container: Int64, _ db: Database) throws -> Int64? {
        let condition = "container = ? AND ended IS NULL"
        if let secret = LinkPath.isSecret(link) ? link : LinkPath.secret(in: link) {
            return try Int64.fetchOne(
                db, sql: "SELECT number FROM links WHERE hash = ? AND \(condition)",
                arguments: [Bytes(hash(secret)), container])
        }
        guard let number = Int64(link) else { return nil }
        return try Int64.fetchOne(
            db, sql: "SELECT number FROM links WHERE number = ? AND \(condition)", arguments: [number, container])
    }

    // MARK: For visitors

    /// The link with a secret.
    /// - Throws: `EndedLink`; `.notFound` if there never was such a link.
    package func find(_ secret: String) async throws -> PublishedLink {
        let hash = Self.hash(secret)
        let found = try await cloud.pool.run { [cloud] in
            try cloud.read { try LinkTables(db: $0).link(hash: hash, at: cloud.timekeeper.now()) }
        }
        guard let found else { throw UbiquityError(.notFound, "there is no such link") }
        return found
    }

    /// Whether this is the link's password. A link without a password needs none.
    package func admits(_ password: String?, to link: PublishedLink) async throws -> Bool {
        guard link.hasPassword else { return true }
        guard let password, password.utf8.count <= CloudLimits.longestLinkPassword else { return false }
        return try await cloud.pool.run { [cloud] in
            let stored = try cloud.read { try LinkTables(db: $0).password(of: link.number) }
            return stored?.matches(password) ?? false
        }
    }

    /// The files of a link in the order of their paths. A file's link has one.
    package func files(of link: PublishedLink) async throws -> [LinkedFile] {
        try await cloud.pool.run { [cloud] in try cloud.read { try LinkTables(db: $0).files(of: link.number) } }
    }

    /// Reads bytes of a linked file, in parts. It looks before each part whether the link is in force.
    /// - Throws: `EndedLink`, and errors of damaged chunks.
    package func read(
        _ file: LinkedFile, _ range: Range<Int64>, of link: PublishedLink,
        receive: @escaping @Sendable (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        let service = ContainerService(cloud: cloud, account: link.account, container: link.container)
        var start: Int64 = 0
        var batch: [ChunkReference] = [], batchStart: Int64 = 0, batchBytes = 0
        for reference in file.manifest {
            let end = start + Int64(reference.length)
            defer { start = end }
            guard end > range.lowerBound, start < range.upperBound else { continue }
            if batch.isEmpty { batchStart = start }
            batch.append(reference)
            batchBytes += reference.length
            guard batchBytes >= CloudLimits.fetchStepBytes || batch.count >= CloudLimits.fetchStepChunks else {
                continue
            }
            try await send(batch, at: batchStart, range, link, service, receive)
            (batch, batchBytes) = ([], 0)
        }
        if !batch.isEmpty { try await send(batch, at: batchStart, range, link, service, receive) }
    }

    private func send(
        _ references: [ChunkReference], at start: Int64, _ range: Range<Int64>, _ link: PublishedLink,
        _ service: ContainerService, _ receive: @Sendable (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        try await requireForce(link)
        let chunks = Lock<[Chunk]>([])
        // A manifest may name one chunk twice.
        try await service.fetchChunks(references.map(\.id)) { chunk in chunks.withLock { $0.append(chunk) } }
        var place = start
        for (chunk, reference) in zip(chunks.withLock({ $0 }), references) {
            guard chunk.id == reference.id, chunk.bytes.count == reference.length else {
                throw UbiquityError(.damaged, "a chunk of the published file has another length")
            }
            let first = Int(max(range.lowerBound - place, 0))
            let last = Int(min(range.upperBound - place, Int64(chunk.bytes.count)))
            if first < last { try await receive(chunk.bytes[first..<last]) }
            place += Int64(chunk.bytes.count)
        }
    }

    private func requireForce(_ link: PublishedLink) async throws {
        let isInForce = try await cloud.pool.run { [cloud] in
            try cloud.read { try LinkTables(db: $0).isInForce(link.number, at: cloud.timekeeper.now()) }
        }
        guard isInForce else { throw EndedLink(number: link.number) }
    }

    /// Counts a complete download that begins now. A failure is logged: it must not keep the visitor from the file.
    package func recordDownload(of link: PublishedLink) async {
        do {
            try await cloud.pool.run { [cloud] in
                try cloud.write { db in
                    try db.execute(
                        sql: "UPDATE links SET downloads = downloads + 1, used = ? WHERE number = ?",
                        arguments: [cloud.timekeeper.now().nanoseconds, link.number])
                }
            }
        } catch {
            cloud.logger.warning("cannot count a download of a link", metadata: ["reason": "\(error)"])
        }
    }

    // MARK: Upkeep

    /// Ends the links that have expired, and drops the lists of files of ended ones.
    func maintain() async throws {
        let now = cloud.timekeeper.now()
        let announced = try await cloud.pool.run { [cloud] in
            try cloud.write { db in try LinkTables(db: db).endExpired(at: now, cloud.random) }
        }
        for (container, revision) in announced { cloud.news.tell(revision, of: container) }
        while try await cloud.pool.run({ [cloud] in try cloud.write { try LinkTables(db: $0).dropFilesOfEnded() } }) {}
        try await cloud.pool.run { [cloud] in try cloud.write { try LinkTables(db: $0).forgetOldest() } }
    }

    // MARK: Requests

    private static func lifetime(_ request: LinkRequest) throws(UbiquityError) -> Double {
        let lifetime = request.lifetime ?? CloudLimits.linkLifetime
        guard lifetime >= 1, lifetime <= CloudLimits.longestLinkLifetime else {
            throw UbiquityError(
                .invalid, "a link lasts 1 second to \(Int(CloudLimits.longestLinkLifetime / 86400)) days")
        }
        return lifetime
    }

    private static func item(_ request: LinkRequest) throws(UbiquityError) -> ItemID {
        guard let item = ItemID(hex: request.item) else {
            throw UbiquityError(.invalid, "an item's id is 32 hexadecimal digits")
        }
        return item
    }

    private static func version(_ request: LinkRequest) throws(UbiquityError) -> VersionID? {
        guard let text = request.version else { return nil }
        guard let version = VersionID(hex: text) else {
            throw UbiquityError(.invalid, "a version's id is 32 hexadecimal digits")
        }
        return version
    }

    private static func checked(_ password: String?) throws(UbiquityError) -> String? {
        guard let password else { return nil }
        guard (1...CloudLimits.longestLinkPassword).contains(password.utf8.count) else {
            throw UbiquityError(.invalid, "a link's password has 1 to \(CloudLimits.longestLinkPassword) bytes")
        }
        return password
    }

    private func requireFree(_ account: Int64, _ db: Database) throws {
        let links = try Int.fetchOne(
            db, sql: "SELECT count(*) FROM links WHERE account = ? AND ended IS NULL", arguments: [account]) ?? 0
        guard links < CloudLimits.maximumLinksPerAccount else {
            throw UbiquityError(
                .tooLarge, "an account has at most \(CloudLimits.maximumLinksPerAccount) links",
                remedy: "revoke some: 'ubiquity publish revoke'")
        }
    }

    private func requireFree(_ snapshot: LinkSnapshot, _ account: Int64, _ db: Database) throws {
        let files = try Int.fetchOne(
            db, sql: "SELECT coalesce(sum(entries), 0) FROM links WHERE account = ? AND ended IS NULL",
            arguments: [account]) ?? 0
        guard files + snapshot.files.count <= CloudLimits.maximumLinkedFilesPerAccount else {
            throw UbiquityError(
                .tooLarge,
                "the links of an account have at most \(CloudLimits.maximumLinkedFilesPerAccount) files and folders",
                remedy: "revoke some: 'ubiquity publish revoke'")
        }
    }

    /// 128 bits of randomness in hexadecimal digits.
    private static func secret(_ random: any RandomSource) -> String {
        (0..<2).map { _ in
            let digits = String(random.next(), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    private static func hash(_ secret: String) -> [UInt8] { Array(SHA256.hash(data: Array(secret.lowercased().utf8))) }
}
