import GRDB
internal import Logging
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The device that a request names.
package struct DeviceContact: Hashable, Sendable {
    package var device: DeviceID
    package var name: String

    package init(device: DeviceID, name: String) {
        self.device = device
        self.name = name
    }
}

/// The devices of the accounts: their names, their last contacts and the tokens that they have used.
package struct AccountDevices: Sendable {
    let cloud: Cloud

    /// Records a contact, unless the last record of this device and token is recent. A failure is logged: it must not
    /// keep a device from its documents.
    package func record(_ contact: DeviceContact?, of holder: TokenHolder) async {
        let now = cloud.timekeeper.now()
        guard cloud.contacts.isDue(RecentContacts.Key(holder: holder, device: contact?.device), now) else { return }
        do {
            try await cloud.pool.run { [cloud] in
                // The first contact of the embedded cloud's account creates it.
                let account = try cloud.account(named: holder.account)
                try cloud.write { try write(contact, of: account, token: holder.token, now, $0) }
            }
        } catch {
            cloud.logger.warning("cannot record a device's contact", metadata: ["reason": "\(error)"])
        }
    }

    private func write(
        _ contact: DeviceContact?, of account: Int64, token: Int64?, _ now: Timestamp, _ db: Database
    ) throws {
        if let token {
            try db.execute(
                sql: "UPDATE accessTokens SET used = ? WHERE number = ?", arguments: [now.nanoseconds, token])
        }
        guard let contact else { return }
        let device = Bytes(contact.device.bytes)
        try db.execute(
            sql: """
                INSERT INTO devices (account, device, name, first, last) VALUES (?1, ?2, ?3, ?4, ?4)
                ON CONFLICT (account, device) DO UPDATE SET name = ?3, last = ?4
                """, arguments: [account, device, contact.name, now.nanoseconds])
        if let token {
            // Not for a token that was revoked meanwhile.
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO deviceTokens (account, device, token)
                    SELECT ?, ?, number FROM accessTokens WHERE number = ? AND revoked IS NULL
                    """, arguments: [account, device, token])
        }
        try forgetOldest(of: account, db)
    }

    /// A client may name a new device in every request, so the oldest ones are dropped.
    private func forgetOldest(of account: Int64, _ db: Database) throws {
        let old = try Row.fetchAll(
            db, sql: "SELECT device FROM devices WHERE account = ? ORDER BY last DESC, device LIMIT -1 OFFSET ?",
            arguments: [account, CloudLimits.maximumDevicesPerAccount])
        for device in old { try forget(Bytes(device.bytes(0) ?? []), of: account, db) }
    }

    private func forget(_ device: Bytes, of account: Int64, _ db: Database) throws {
        for table in ["devices", "deviceTokens"] {
            try db.execute(
                sql: "DELETE FROM \(table) WHERE account = ? AND device = ?", arguments: [account, device])
        }
    }

    /// The devices of an account, by name. Throws `.notFound`.
    package func list(of account: String) async throws -> [DeviceEntry] {
        try await cloud.pool.run { [cloud] in
            try cloud.read { db in
                let number = try Cloud.requiredNumber(of: account, db)
                return try Row.fetchAll(
                    db, sql: "SELECT device, name, first, last FROM devices WHERE account = ? ORDER BY name, device",
                    arguments: [number]
                ).compactMap { row in
                    guard let id = row.bytes(0), let device = DeviceID(bytes: id) else { return nil }
                    let tokens = try self.tokens(of: Bytes(id), number, db)
                    return DeviceEntry(
                        id: device.description, name: row.text(1) ?? "", firstContact: row.time(2).inSeconds,
                        lastContact: row.time(3).inSeconds, tokens: tokens.map(\.name))
                }
            }
        }
    }

    private func tokens(
        of device: Bytes, _ account: Int64, _ db: Database
    ) throws -> [(number: Int64, name: String)] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT accessTokens.number, accessTokens.name FROM deviceTokens
                JOIN accessTokens ON accessTokens.number = deviceTokens.token
                WHERE deviceTokens.account = ? AND device = ? AND revoked IS NULL ORDER BY accessTokens.name
                """, arguments: [account, device]
        ).map { ($0.number(0) ?? 0, $0.text(1) ?? "") }
    }

    /// Removes a device from the list, and revokes all tokens that it has used. Other devices that used one of them are
    /// cut off too.
    /// - Parameter text: its name or its id.
    /// - Throws: `.notFound`; `.invalid` if several devices have this name.
    package func remove(_ text: String, of account: String) async throws -> RemovedDevice {
        let (removed, revoked) = try await cloud.pool.run { [cloud] in
            try cloud.write { db -> (RemovedDevice, [Int64]) in
                let number = try Cloud.requiredNumber(of: account, db)
                let (device, name) = try find(text, of: number, db)
                let tokens = try self.tokens(of: device, number, db)
                var others = Set<String>()
                for token in tokens {
                    others.formUnion(
                        try String.fetchAll(
                            db,
                            sql: """
                                SELECT devices.name FROM deviceTokens JOIN devices USING (account, device)
                                WHERE deviceTokens.token = ? AND device <> ?
                                """, arguments: [token.number, device]))
                }
                try AccountTokens(cloud: cloud).markRevoked(tokens.map(\.number), of: number, db)
                try forget(device, of: number, db)
                let removed = RemovedDevice(
                    name: name, revokedTokens: tokens.map(\.name), otherDevices: others.sorted())
                return (removed, tokens.map(\.number))
            }
        }
        cloud.revocations.announce(revoked)
        return removed
    }

    private func find(_ text: String, of account: Int64, _ db: Database) throws -> (id: Bytes, name: String) {
        let rows: [Row]
        if let device = DeviceID(hex: text) {
            rows = try Row.fetchAll(
                db, sql: "SELECT device, name FROM devices WHERE account = ? AND device = ?",
                arguments: [account, Bytes(device.bytes)])
        } else {
            rows = try Row.fetchAll(
                db, sql: "SELECT device, name FROM devices WHERE account = ? AND name = ?", arguments: [account, text])
        }
        guard let row = rows.first, let id = row.bytes(0) else {
            throw UbiquityError(
                .notFound, "the account has no device of this name", at: text,
                remedy: "'ubiquity device list' lists them")
        }
        guard rows.count == 1 else {
            throw UbiquityError(
                .invalid, "the account has \(rows.count) devices of this name", at: text,
                remedy: "give the id of one, which 'ubiquity device list --json' prints")
        }
        return (Bytes(id), row.text(1) ?? "")
    }
}

extension Timestamp {
    /// As in messages.
    var inSeconds: Double { Double(nanoseconds) / 1e9 }
}
