import GRDB
internal import UbiquityCore
internal import UbiquitySystem

// Accounts and their tokens.
extension Cloud {
    /// The account of an embedded cloud, which needs no sign-in: only its user can reach the socket.
    package static let localAccount = "local"

    /// Creates an account and its first token, which has all rights. The token is returned only this once: the cloud
    /// keeps its SHA-256. Throws `.alreadyExists`, `.invalidName`, `.invalid`, `.tooLarge`.
    /// - Parameter quota: in bytes; nil for that of all accounts.
    package func createAccount(_ name: String, quota: Int64? = nil) async throws -> String {
        if let quota { try Self.checkQuota(quota) }
        guard name != Self.localAccount else {
            throw UbiquityError(
                .invalidName, "\"\(name)\" is reserved for the cloud's own socket",
                remedy: "choose another name")
        }
        guard ContainerID(name) != nil else {
            throw UbiquityError(.invalidName, "not a name for an account: \"\(name)\"", remedy: ContainerID.rules)
        }
        let token = AccountTokens.secret(random)
        try await pool.run { [self] in
            try write { db in
                guard try Row.fetchOne(db, sql: "SELECT 1 FROM accounts WHERE name = ?", arguments: [name]) == nil
                else {
                    throw UbiquityError(.alreadyExists, "an account of this name exists", at: name)
                }
                let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM accounts") ?? 0
                guard count < CloudLimits.maximumAccounts else {
                    throw UbiquityError(.tooLarge, "a cloud has at most \(CloudLimits.maximumAccounts) accounts")
                }
                let account = try insertAccount(name, db, quota: quota)
                _ = try tokens.insert(token, named: nil, .all, of: account, db)
            }
        }
        return token
    }

    /// Sets the quota of one account. An account may have more than its quota; then only more is refused.
    /// - Parameter bytes: nil for that of all accounts.
    /// - Throws: `.notFound`, `.invalid`.
    package func setQuota(_ bytes: Int64?, of account: String) async throws {
        if let bytes { try Self.checkQuota(bytes) }
        let number = try await pool.run { try self.account(named: account) }
        try await pool.run { [self] in
            try write { db in
                try db.execute(
                    sql: "UPDATE accounts SET quota = ?, ownQuota = ? WHERE number = ?",
                    arguments: [bytes ?? quotaBytes, bytes == nil ? 0 : 1, number])
            }
        }
    }

    private static func checkQuota(_ bytes: Int64) throws(UbiquityError) {
        guard (1...CloudLimits.largestQuotaBytes).contains(bytes) else {
            throw UbiquityError(
                .invalid, "a quota has 1 byte to \(ByteSize.text(CloudLimits.largestQuotaBytes)), not \(bytes) bytes")
        }
    }

    package func accounts() async throws -> [String] {
        try await pool.run { try self.read { try String.fetchAll($0, sql: "SELECT name FROM accounts ORDER BY name") } }
    }

    /// Deletes an account with all its data. Throws `.notFound`.
    package func deleteAccount(_ name: String) async throws {
        try await pool.run { [self] in
            let (number, containers, tokens) = try write { db -> (Int64, [Int64], [Int64]) in
                let number = try Self.requiredNumber(of: name, db)
                let containers = try Int64.fetchAll(
                    db, sql: "SELECT number FROM containers WHERE account = ?", arguments: [number])
                for table in ["items", "versions", "commits", "lastCommits", "purges", "keyValues", "keyValueFeeds"] {
                    try db.execute(
                        sql:
                            "DELETE FROM \(table) WHERE container IN (SELECT number FROM containers WHERE account = ?)",
                        arguments: [number])
                }
                let tokens = try Int64.fetchAll(
                    db, sql: "SELECT number FROM accessTokens WHERE account = ?", arguments: [number])
                try db.execute(
                    sql: "DELETE FROM linkFiles WHERE link IN (SELECT number FROM links WHERE account = ?)",
                    arguments: [number])
                for table in [
                    "links", "containers", "accessTokens", "devices", "deviceTokens", "smallChunks", "purgedChunks",
                ] {
                    try db.execute(sql: "DELETE FROM \(table) WHERE account = ?", arguments: [number])
                }
                try db.execute(sql: "DELETE FROM accounts WHERE number = ?", arguments: [number])
                return (number, containers, tokens)
            }
            revocations.announce(tokens)
            for container in containers {
                news.end(of: container)
                keyValueNews.end(of: container)
            }
            try removeChunks(of: number)
            emptyLog()
        }
    }

    private func removeChunks(of account: Int64) throws {
        forgetStore(of: account)
        let path = Path.join(folder, "chunks/\(account)")
        try describing("remove the account's chunks", at: path) { () throws(Errno) in
            do throws(Errno) { try FileSystem.removeTree(path) } catch .ENOENT {
                return
            } catch .ENOTEMPTY {
                // Chunks stored by an upload in progress are removed by the upkeep.
                return
            }
        }
        try write { try $0.execute(sql: "DELETE FROM smallChunks WHERE account = ?", arguments: [account]) }
    }

    /// Removes chunks left by deleted accounts: the process ended meanwhile, or an upload was in progress.
    func removeChunksOfDeletedAccounts() throws {
        let path = Path.join(folder, "chunks")
        let folders = try describing("list the accounts' chunks", at: path) { () throws(Errno) in
            do throws(Errno) { return try FileSystem.entries(of: path) } catch .ENOENT { return [] }
        }
        let withFolders = folders.compactMap { Int64(String(decoding: $0.name, as: UTF8.self)) }
        let withChunks = try withFolders + accountsWithSmallChunks()
        // Read last: an account exists before its chunks.
        let accounts = Set(try accountNumbers())
        for account in Set(withChunks).subtracting(accounts).sorted() { try removeChunks(of: account) }
    }

    /// Steps from one account to the next by the table's key, so that the table is not read completely.
    private func accountsWithSmallChunks() throws -> [Int64] {
        try read { db in
            var found = [Int64](), last = Int64.min
            while let next = try Int64.fetchOne(
                db, sql: "SELECT min(account) FROM smallChunks WHERE account > ?", arguments: [last])
            {
                found.append(next)
                last = next
            }
            return found
        }
    }

    /// The account's number. The local account is created on first use.
    func account(named name: String) throws -> Int64 {
        if let number = try read({ try Self.number(of: name, $0) }) { return number }
        guard name == Self.localAccount else {
            throw Self.noAccount(name)
        }
        return try write { db in try Self.number(of: name, db) ?? insertAccount(name, db) }
    }

    /// Throws `.notFound`.
    static func requiredNumber(of name: String, _ db: Database) throws -> Int64 {
        guard let number = try number(of: name, db) else { throw noAccount(name) }
        return number
    }

    private static func noAccount(_ name: String) -> UbiquityError {
        UbiquityError(.notFound, "there is no account of this name", at: name)
    }

    static func number(of name: String, _ db: Database) throws -> Int64? {
        try Int64.fetchOne(db, sql: "SELECT number FROM accounts WHERE name = ?", arguments: [name])
    }

    private func insertAccount(_ name: String, _ db: Database, quota: Int64? = nil) throws -> Int64 {
        try db.execute(
            sql: "INSERT INTO accounts (name, quota, used, created, ownQuota) VALUES (?, ?, 0, ?, ?)",
            arguments: [name, quota ?? quotaBytes, timekeeper.now().nanoseconds, quota == nil ? 0 : 1])
        return db.lastInsertedRowID
    }
}
