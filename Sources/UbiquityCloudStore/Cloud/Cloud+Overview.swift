import GRDB
package import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

// Read-only views of a cloud for its web pages.
extension Cloud {
    /// All of an account's containers. Throws `.notFound`.
    package func overview(of account: String) async throws -> AccountOverview {
        try await pool.run { [self] in
            try read { db in
                guard
                    let row = try Row.fetchOne(
                        db, sql: "SELECT number, used, quota FROM accounts WHERE name = ?", arguments: [account]),
                    let number = row.number(0)
                else { throw UbiquityError(.notFound, "there is no account of this name", at: account) }
                let containers = try Row.fetchAll(
                    db, sql: "SELECT number, name, revision FROM containers WHERE account = ? ORDER BY name",
                    arguments: [number])
                return AccountOverview(
                    name: account,
                    usage: CloudUsage(usedBytes: max(0, row.number(1) ?? 0), quotaBytes: row.number(2) ?? 0),
                    containers: try containers.compactMap { try Self.overview($0, db) })
            }
        }
    }

    /// An account's usage and the names of its containers. Throws `.notFound`.
    package func summary(of account: String) async throws -> AccountSummary {
        try await pool.run { [self] in
            // The embedded cloud's account is created by its first request.
            let number = try self.account(named: account)
            return try read { db in
                let row = try Row.fetchOne(
                    db, sql: "SELECT used, quota FROM accounts WHERE number = ?", arguments: [number])
                let names = try String.fetchAll(
                    db, sql: "SELECT name FROM containers WHERE account = ? ORDER BY name", arguments: [number])
                return AccountSummary(
                    name: account, usedBytes: max(0, row?.number(0) ?? 0), quotaBytes: row?.number(1) ?? 0,
                    containers: names.compactMap { ContainerID($0) })
            }
        }
    }

    /// One container, which must exist. Throws `.notFound`.
    package func browser(account: String, container: ContainerID) async throws -> any ContainerBrowser {
        try await pool.run { [self] in
            let service = ContainerService(
                cloud: self, account: try self.account(named: account), container: container)
            _ = try read { try service.required($0) }
            return service
        }
    }

    private static func overview(_ row: Row, _ db: Database) throws -> ContainerOverview? {
        guard let number = row.number(0), let name = row.text(1).flatMap({ ContainerID($0) }) else { return nil }
        let tables = ContainerTables(db: db, container: number)
        return ContainerOverview(
            name: name, revision: Revision(row.number(2) ?? 0),
            items: try tables.count("items INDEXED BY itemsPlace", "deleted IS NULL"),
            deletedItems: try tables.count("items INDEXED BY itemsDeleted", "deleted IS NOT NULL"),
            versions: try tables.count("versions INDEXED BY versionsItem"),
            conflictItems: try tables.count("items INDEXED BY itemsConflicts", "conflicts <> 0 AND deleted IS NULL"),
            devices: try tables.devices())
    }
}

extension ContainerService: ContainerBrowser {
    func folder(
        _ folder: ItemID, _ order: FolderOrder, onlyFolders: Bool, from offset: Int, limit: Int
    ) async throws -> FolderListing {
        try await look { try $0.folder(folder, order, onlyFolders: onlyFolders, from: offset, limit: limit) }
    }

    func child(of folder: ItemID, named name: ItemName) async throws -> RemoteItem? {
        try await look { try $0.child(of: folder, named: name) }
    }

    func subtree(of item: ItemID, limit: Int) async throws -> [RemoteItem] {
        try await look { try $0.subtree(of: item, limit: limit) }
    }

    func search(_ text: String, limit: Int) async throws -> SearchResult {
        try await look { try $0.search(text, limit: limit) }
    }

    func itemsInConflict(after item: ItemID?, limit: Int) async throws -> ItemListing {
        try await look { queries in
            let items = try queries.tables.itemsInConflict(after: item, limit: limit + 1)
            return ItemListing(items: Array(items.prefix(limit)), hasMore: items.count > limit)
        }
    }

    func place(of item: ItemID) async throws -> ItemPlace {
        try await look { queries in
            guard let place = try queries.place(of: item) else {
                throw UbiquityError(.notFound, "there is no such item")
            }
            return place
        }
    }

    private func look<T: Sendable>(_ body: @escaping @Sendable (BrowserQueries) throws -> T) async throws -> T {
        try await cloud.pool.run { [self] in
            try cloud.read { db in
                try body(BrowserQueries(tables: ContainerTables(db: db, container: try required(db).number)))
            }
        }
    }
}

extension ContainerTables {
    /// Rows of the container, up to `CloudLimits.countedRows`.
    fileprivate func count(_ table: String, _ condition: String = "TRUE") throws -> Int {
        let rows = "SELECT 1 FROM \(table) WHERE container = ? AND \(condition) LIMIT \(CloudLimits.countedRows)"
        return Int(try fetchOne("SELECT count(*) FROM (\(rows))", [])?.number(0) ?? 0)
    }

    fileprivate func devices() throws -> [ContainerOverview.Device] {
        try fetchAll(
            "SELECT device, deviceName FROM lastCommits WHERE container = ? ORDER BY deviceName, device LIMIT "
                + "\(CloudLimits.maximumDevicesPerAccount)", []
        ).compactMap { row in
            DeviceID(bytes: row.bytes(0) ?? []).map { ContainerOverview.Device(id: $0, name: row.text(1) ?? "") }
        }
    }

    fileprivate func itemsInConflict(after item: ItemID?, limit: Int) throws -> [RemoteItem] {
        try remoteItems(
            "itemsConflicts",
            "items.conflicts <> 0 AND items.deleted IS NULL AND items.id > ? ORDER BY items.id LIMIT ?",
            [Bytes(item?.bytes ?? []), limit])
    }
}
