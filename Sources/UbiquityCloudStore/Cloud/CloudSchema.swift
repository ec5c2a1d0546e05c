import GRDB
internal import UbiquityCore

/// The tables of a cloud's `metadata.db`.
enum CloudSchema {
    /// The format this program writes. A greater one was written by a newer program and is left untouched.
    static let formatVersion: Int64 = 14

    /// Two rows of `meta`: the features that the data uses (`FormatFeatures`), and the highest version
    /// of the program that has written it.
    private static let featuresRow = "features", programRow = "highest-program"

    /// Creates the tables, or migrates older ones, if the program knows all features of the data.
    /// - Returns: the features.
    static func prepare(_ db: Database, incarnation: UInt64) throws -> FormatFeatures {
        let found = try Int64.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard found <= formatVersion else {
            throw UbiquityError(
                .newerFormat, "the cloud's data was made by a newer version of ubiquity (format \(found))",
                remedy: "run that version; the data is unchanged")
        }
        var features = FormatFeatures()
        if found > 0 {
            let text = try String.fetchOne(db, sql: "SELECT value FROM meta WHERE name = ?", arguments: [featuresRow])
            features = FormatFeatures(text: text ?? "")
            switch features.access(knowing: FormatFeatures.known) {
            case .full: break
            case .readOnly: return features
            case .none(let unknown): throw features.refusal(of: "the cloud's data", unknown)
            }
        }
        if found < 1 {
            try db.execute(sql: version1)
            try db.execute(
                sql: "INSERT INTO meta VALUES ('incarnation', ?)", arguments: [Int64(bitPattern: incarnation)])
        }
        if found < 2 { try db.execute(sql: version2) }
        if found < 3 { try db.execute(sql: version3) }
        if found < 4 { try db.execute(sql: version4) }
        if found < 5 { try db.execute(sql: version5) }
        if found < 6 { try db.execute(sql: version6) }
        if found < 7 { try db.execute(sql: version7) }
        if found < 8 { try db.execute(sql: version8) }
        if found < 9 { try db.execute(sql: version9) }
        if found < 10 { try db.execute(sql: version10) }
        if found < 11 { try db.execute(sql: version11) }
        if found < 12 { try db.execute(sql: LinkSchema.setUp) }
        if found < 13 { try db.execute(sql: KeyValueTables.setUp) }
        if found < 14 { try db.execute(sql: version14) }
        // Without a write, an existing cloud starts even on a full disk.
        if found < formatVersion { try db.execute(sql: "PRAGMA user_version = \(formatVersion)") }
        features.compatible.insert("display-names")
        try set(featuresRow, features.text, db)
        let highest = try String.fetchOne(db, sql: "SELECT value FROM meta WHERE name = ?", arguments: [programRow])
        try set(programRow, FormatFeatures.newer(highest ?? "", FormatFeatures.program), db)
        return features
    }

    /// Writes a row of `meta` if its value is another one.
    private static func set(_ row: String, _ value: String, _ db: Database) throws {
        try db.execute(
            sql: "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2 WHERE value IS NOT ?2",
            arguments: [row, value])
    }

    /// The names of containers for people.
    private static let version14 = "ALTER TABLE containers ADD COLUMN displayName TEXT;"

    /// Whether an account's quota was set for it alone; and purges that are not finished (`Purges`).
    private static let version11 = """
        ALTER TABLE accounts ADD COLUMN ownQuota INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE purges (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            container INTEGER NOT NULL, item BLOB, before INTEGER NOT NULL
        );
        CREATE TABLE purgedChunks (
            account INTEGER NOT NULL, id BLOB NOT NULL, purged INTEGER NOT NULL,
            PRIMARY KEY (account, id)
        ) WITHOUT ROWID;
        """

    /// Tokens with names and rights, and the account's devices. A token of an older format opens the whole account.
    ///
    /// `containers` is null for all of them. `revoked` is the time of the revocation.
    private static let version10 = """
        CREATE TABLE accessTokens (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            hash BLOB NOT NULL UNIQUE, account INTEGER NOT NULL, name TEXT NOT NULL,
            containers TEXT, readOnly INTEGER NOT NULL DEFAULT 0,
            created INTEGER NOT NULL, used INTEGER, revoked INTEGER
        );
        CREATE UNIQUE INDEX accessTokensName ON accessTokens (account, name) WHERE revoked IS NULL;
        CREATE INDEX accessTokensRevoked ON accessTokens (account, number) WHERE revoked IS NOT NULL;
        INSERT INTO accessTokens (hash, account, name, created)
            SELECT hash, account, 'token ' || row_number() OVER (PARTITION BY account ORDER BY created, hash), created
            FROM tokens ORDER BY account, created, hash;
        DROP TABLE tokens;

        CREATE TABLE devices (
            account INTEGER NOT NULL, device BLOB NOT NULL, name TEXT NOT NULL,
            first INTEGER NOT NULL, last INTEGER NOT NULL,
            PRIMARY KEY (account, device)
        ) WITHOUT ROWID;
        CREATE TABLE deviceTokens (
            account INTEGER NOT NULL, device BLOB NOT NULL, token INTEGER NOT NULL,
            PRIMARY KEY (account, device, token)
        ) WITHOUT ROWID;
        CREATE INDEX deviceTokensToken ON deviceTokens (token);
        """

    /// The bytes of each account's rows.
    private static let version9 = "ALTER TABLE accounts ADD COLUMN stored INTEGER NOT NULL DEFAULT 0;\n"
        + StoredRows.setUp

    /// A random mark for each revision, of its commit; and the common ancestor of a conflict's two sides.
    private static let version8 = """
        ALTER TABLE commits ADD COLUMN mark INTEGER;
        CREATE INDEX commitsMark ON commits (container, revision) WHERE mark IS NOT NULL;
        ALTER TABLE versions ADD COLUMN ancestor BLOB;
        """

    /// Finds items in conflict.
    private static let version7 = "CREATE INDEX itemsConflicts ON items (container, id) WHERE conflicts <> 0;"

    /// Distinguishes a container whose data is an older copy from its earlier state (`ContainerService.renew`).
    private static let version6 = """
        ALTER TABLE containers ADD COLUMN history INTEGER NOT NULL DEFAULT 0;
        """

    /// The device name in its last commit.
    private static let version5 = """
        ALTER TABLE lastCommits ADD COLUMN deviceName TEXT NOT NULL DEFAULT '';
        """

    /// Finds the names of an item. Programs of the previous format do not know items of this kind.
    private static let version4 = """
        CREATE INDEX itemsLinks ON items (container, link) WHERE kind = 4 AND deleted IS NULL;
        """

    /// The number of the last commit that a container accepted from each device.
    private static let version3 = """
        CREATE TABLE lastCommits (
            container INTEGER NOT NULL, device BLOB NOT NULL, number INTEGER NOT NULL,
            PRIMARY KEY (container, device)
        ) WITHOUT ROWID;
        """

    /// Whether an item has earlier versions, and an index of versions by role.
    private static let version2 = """
        ALTER TABLE items ADD COLUMN history INTEGER NOT NULL DEFAULT 0;
        UPDATE items SET history = 1 WHERE (container, id) IN (SELECT container, item FROM versions
            WHERE role = 2 AND manifest IS NOT NULL);
        DROP INDEX versionsItem;
        CREATE INDEX versionsItem ON versions (container, item, role);
        """

    private static let version1 = """
        CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

        CREATE TABLE accounts (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE, quota INTEGER NOT NULL, used INTEGER NOT NULL, created INTEGER NOT NULL
        );
        CREATE TABLE tokens (hash BLOB PRIMARY KEY, account INTEGER NOT NULL, created INTEGER NOT NULL) WITHOUT ROWID;

        CREATE TABLE containers (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            account INTEGER NOT NULL, name TEXT NOT NULL,
            revision INTEGER NOT NULL, purged INTEGER NOT NULL, commits INTEGER NOT NULL,
            UNIQUE (account, name)
        );

        CREATE TABLE items (
            container INTEGER NOT NULL, id BLOB NOT NULL,
            kind INTEGER NOT NULL, revision INTEGER NOT NULL, deleted INTEGER,
            parent BLOB NOT NULL, name BLOB NOT NULL,
            mode INTEGER NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
            xattrs BLOB, link BLOB, version BLOB, size INTEGER NOT NULL,
            conflicts INTEGER NOT NULL, conflictBytes INTEGER NOT NULL, stamps BLOB NOT NULL,
            PRIMARY KEY (container, id)
        ) WITHOUT ROWID;
        CREATE INDEX itemsFeed ON items (container, revision, id);
        CREATE INDEX itemsPlace ON items (container, parent, name) WHERE deleted IS NULL;
        CREATE INDEX itemsDeleted ON items (container, deleted) WHERE deleted IS NOT NULL;
        CREATE INDEX itemsDeletedIn ON items (container, parent) WHERE deleted IS NOT NULL;

        CREATE TABLE versions (
            container INTEGER NOT NULL, id BLOB NOT NULL, item BLOB NOT NULL, role INTEGER NOT NULL,
            size INTEGER NOT NULL, modified INTEGER NOT NULL, device BLOB NOT NULL, deviceName TEXT NOT NULL,
            base BLOB, savedName BLOB NOT NULL, manifest BLOB, saved INTEGER NOT NULL, superseded INTEGER,
            PRIMARY KEY (container, id)
        ) WITHOUT ROWID;
        CREATE INDEX versionsItem ON versions (container, item);
        CREATE INDEX versionsSuperseded ON versions (container, superseded) WHERE superseded IS NOT NULL;

        CREATE TABLE commits (
            container INTEGER NOT NULL, request BLOB NOT NULL, number INTEGER NOT NULL, revision INTEGER NOT NULL,
            outcomes BLOB NOT NULL,
            PRIMARY KEY (container, request)
        ) WITHOUT ROWID;
        CREATE INDEX commitsNumber ON commits (container, number);

        CREATE TABLE smallChunks (
            account INTEGER NOT NULL, id BLOB NOT NULL, bytes BLOB NOT NULL, asked INTEGER NOT NULL,
            UNIQUE (account, id)
        );
        """
}
