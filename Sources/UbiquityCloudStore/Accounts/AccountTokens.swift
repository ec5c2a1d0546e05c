import Crypto
import GRDB
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The tokens of the accounts. The cloud stores the SHA-256 of a token, not the token.
///
/// A revoked token keeps its row for a while, so that its devices get an error that says so.
package struct AccountTokens: Sendable {
    let cloud: Cloud

    /// Creates a token of an account, which must exist.
    /// - Throws: `.notFound`, `.alreadyExists`, `.invalidName`, `.nameTooLong`, `.tooLarge`.
    package func create(of account: String, _ request: TokenRequest) async throws -> NewToken {
        if let name = request.name { try Self.check(name) }
        let rights = try Self.rights(of: request), secret = Self.secret(cloud.random)
        let name = try await cloud.pool.run { [cloud] in
            try cloud.write { db in
                let number = try Cloud.requiredNumber(of: account, db)
                return try insert(secret, named: request.name, rights, of: number, db)
            }
        }
        return NewToken(account: account, name: name, token: secret)
    }

    /// The valid tokens of an account, by name. Throws `.notFound`.
    package func list(of account: String) async throws -> [TokenEntry] {
        try await cloud.pool.run { [cloud] in
            try cloud.read { db in
                let number = try Cloud.requiredNumber(of: account, db)
                let rows = try Row.fetchAll(
                    db,
                    sql: """
                        SELECT name, containers, readOnly, created, used, number FROM accessTokens
                        WHERE account = ? AND revoked IS NULL ORDER BY name
                        """, arguments: [number])
                return try rows.map { row in
                    let devices = try String.fetchAll(
                        db,
                        sql: """
                            SELECT devices.name FROM deviceTokens JOIN devices USING (account, device)
                            WHERE deviceTokens.token = ? ORDER BY devices.name
                            """, arguments: [row.number(5)])
                    let rights = TokenRights(storedContainers: row.text(1), isReadOnly: row.number(2) == 1)
                    return TokenEntry(
                        name: row.text(0) ?? "", containers: rights.containers?.map(\.name).sorted(),
                        readOnly: rights.isReadOnly, created: row.time(3).inSeconds,
                        lastUsed: row.number(4).map { Timestamp(nanoseconds: $0).inSeconds }, devices: devices)
                }
            }
        }
    }

    /// Revokes a token. Its connections end at once.
    /// - Throws: `.notFound` if the account has no valid token of this name.
    package func revoke(_ name: String, of account: String) async throws {
        let token = try await cloud.pool.run { [cloud] in
            try cloud.write { db in
                let number = try Cloud.requiredNumber(of: account, db)
                guard
                    let token = try Int64.fetchOne(
                        db, sql: "SELECT number FROM accessTokens WHERE account = ? AND name = ? AND revoked IS NULL",
                        arguments: [number, name])
                else {
                    throw UbiquityError(
                        .notFound, "the account has no valid token of this name", at: name,
                        remedy: "'ubiquity account token list' lists them")
                }
                try markRevoked([token], of: number, db)
                return token
            }
        }
        cloud.revocations.announce([token])
    }

    /// Marks tokens as revoked. The caller announces them when the transaction is committed.
    func markRevoked(_ tokens: [Int64], of account: Int64, _ db: Database) throws {
        for token in tokens {
            try db.execute(
                sql: "UPDATE accessTokens SET revoked = ? WHERE number = ?",
                arguments: [cloud.timekeeper.now().nanoseconds, token])
            try db.execute(sql: "DELETE FROM deviceTokens WHERE token = ?", arguments: [token])
        }
        try db.execute(
            sql: """
                DELETE FROM accessTokens WHERE number IN (SELECT number FROM accessTokens
                WHERE account = ? AND revoked IS NOT NULL ORDER BY number DESC LIMIT -1 OFFSET ?)
                """, arguments: [account, CloudLimits.keptRevokedTokens])
    }

    /// The account and the rights of a token.
    /// - Throws: `.signedOut` if the token is unknown, `RevokedToken` if it was revoked.
    package func authenticate(_ secret: String) async throws -> TokenHolder {
        let hash = Self.hash(secret)
        let found = try await cloud.pool.run { [cloud] in
            try cloud.read { try holder(of: Bytes(hash), $0) }
        }
        guard let found else {
            throw UbiquityError(
                .signedOut, "the cloud does not know this token", remedy: "sign in again with 'ubiquity login'")
        }
        return found
    }

    private func holder(of hash: Bytes, _ db: Database) throws -> TokenHolder? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT accounts.name, accessTokens.number, containers, readOnly, revoked, accessTokens.name
                    FROM accessTokens JOIN accounts ON accounts.number = accessTokens.account WHERE hash = ?
                    """), arguments: [hash])
        guard let row, let account = row.text(0), let number = row.number(1) else { return nil }
        guard row.number(4) == nil else { throw RevokedToken(account: account, name: row.text(5) ?? "") }
        return TokenHolder(
            account: account, token: number,
            rights: TokenRights(storedContainers: row.text(2), isReadOnly: row.number(3) == 1))
    }

    // MARK: Rows

    /// Inserts a token.
    /// - Parameter name: nil for "token" and a number.
    /// - Returns: its name.
    func insert(
        _ secret: String, named name: String?, _ rights: TokenRights, of account: Int64, _ db: Database
    ) throws -> String {
        let names = Set(
            try String.fetchAll(
                db, sql: "SELECT name FROM accessTokens WHERE account = ? AND revoked IS NULL", arguments: [account]))
        guard names.count < CloudLimits.maximumTokensPerAccount else {
            throw UbiquityError(
                .tooLarge, "an account has at most \(CloudLimits.maximumTokensPerAccount) tokens",
                remedy: "revoke some: 'ubiquity account token revoke'")
        }
        if let name, names.contains(name) {
            throw UbiquityError(
                .alreadyExists, "the account has a token of this name", at: name, remedy: "choose another --name")
        }
        // One of these names is free: there is one more than there are tokens.
        let free = (1...names.count + 1).lazy.map { "token \($0)" }.first { !names.contains($0) }
        let chosen = name ?? free ?? "token"
        try db.execute(
            sql: """
                INSERT INTO accessTokens (hash, account, name, containers, readOnly, created) VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                Bytes(Self.hash(secret)), account, chosen, rights.storedContainers, rights.isReadOnly ? 1 : 0,
                cloud.timekeeper.now().nanoseconds,
            ])
        return chosen
    }

    private static func check(_ name: String) throws(UbiquityError) {
        let length = CloudLimits.maximumTokenNameLength
        guard name.utf8.count <= length else {
            throw UbiquityError(.nameTooLong, "a token's name has at most \(length) bytes")
        }
        let isPrintable = name.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        guard isPrintable, name.contains(where: { !$0.isWhitespace }) else {
            throw UbiquityError(.invalidName, "a token's name is a line of text, not blank")
        }
    }

    static func rights(of request: TokenRequest) throws(UbiquityError) -> TokenRights {
        guard let names = request.containers else {
            return TokenRights(containers: nil, isReadOnly: request.readOnly ?? false)
        }
        guard (1...CloudLimits.maximumContainersPerToken).contains(names.count) else {
            throw UbiquityError(
                .invalid, "a token is for all containers, or for 1 to \(CloudLimits.maximumContainersPerToken)")
        }
        var containers = Set<ContainerID>()
        for name in names {
            guard let container = ContainerID(name) else {
                throw UbiquityError(.invalidName, "not a container's name: \"\(name)\"", remedy: ContainerID.rules)
            }
            containers.insert(container)
        }
        return TokenRights(containers: containers, isReadOnly: request.readOnly ?? false)
    }

    /// 256 bits of randomness in hexadecimal digits.
    static func secret(_ random: any RandomSource) -> String {
        (0..<4).map { _ in
            let digits = String(random.next(), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    private static func hash(_ token: String) -> [UInt8] { Array(SHA256.hash(data: Array(token.utf8))) }
}

/// Thrown for a token that was valid and was revoked. It is no guess, so it does not count as a failed attempt.
package struct RevokedToken: Error, Hashable, Sendable {
    package var account: String
    package var name: String

    package init(account: String, name: String) {
        self.account = account
        self.name = name
    }

    /// The error for the device.
    package var error: UbiquityError {
        UbiquityError(
            .signedOut, "the token \"\(name)\" of account \(account) was revoked",
            remedy: "ask the account's owner for a new one, and sign in with 'ubiquity login'")
    }
}
