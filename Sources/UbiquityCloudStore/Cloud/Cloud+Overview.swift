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
    func children(of folder: ItemID, after name: ItemName?, limit: Int) async throws -> ItemListing {
        try await listing(limit) { try $0.children(of: folder, after: name, limit: limit + 1) }
    }

    func itemsInConflict(after item: ItemID?, limit: Int) async throws -> ItemListing {
        try await listing(limit) { try $0.itemsInConflict(after: item, limit: limit + 1) }
    }

    func place(of item: ItemID) async throws -> ItemPlace {
        try await look { tables in
            guard let found = try tables.remoteItem(item) else {
                throw UbiquityError(.notFound, "there is no such item")
            }
            return ItemPlace(item: found, folders: try tables.folders(above: found))
        }
    }

    private func listing(
        _ limit: Int, _ body: @escaping @Sendable (ContainerTables) throws -> [RemoteItem]
    ) async throws -> ItemListing {
        try await look { tables in
            let items = try body(tables)
            return ItemListing(items: Array(items.prefix(limit)), hasMore: items.count > limit)
        }
    }

    private func look<T: Sendable>(_ body: @escaping @Sendable (ContainerTables) throws -> T) async throws -> T {
        try await cloud.pool.run { [self] in
            try cloud.read { try body(ContainerTables(db: $0, container: try required($0).number)) }
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

    fileprivate func children(of folder: ItemID, after name: ItemName?, limit: Int) throws -> [RemoteItem] {
        try remoteItems(
            "itemsPlace", "items.parent = ? AND items.name > ? AND items.deleted IS NULL ORDER BY items.name LIMIT ?",
            [Bytes(folder.bytes), Bytes(name?.bytes ?? []), limit])
    }

    fileprivate func itemsInConflict(after item: ItemID?, limit: Int) throws -> [RemoteItem] {
        try remoteItems(
            "itemsConflicts",
            "items.conflicts <> 0 AND items.deleted IS NULL AND items.id > ? ORDER BY items.id LIMIT ?",
            [Bytes(item?.bytes ?? []), limit])
    }

    /// From the top down, without the top folder itself.
    fileprivate func folders(above item: RemoteItem) throws -> [ItemPlace.Folder] {
        var folders: [ItemPlace.Folder] = [], next = item.parent
        while next != .root, item.id != .root, folders.count < Limits.maximumDepth, let folder = try self.item(next) {
            folders.append(ItemPlace.Folder(id: folder.id, name: folder.name))
            next = folder.parent
        }
        return folders.reversed()
    }
}
