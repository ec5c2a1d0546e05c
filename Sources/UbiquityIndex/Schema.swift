import GRDB
internal import UbiquityCore
internal import UbiquitySystem

/// The tables of `index.db`, and the migration of older files.
enum Schema {
    /// The format this program writes. A file with a greater number was made by a newer program and is left alone.
    static let formatVersion = Int64(steps.count)

    /// The beginning of an SQLite file, and the position of its `user_version`, four bytes big-endian.
    private static let magic = Array("SQLite format 3\0".utf8)
    private static let versionBytes = 60..<64

    /// Checks a file's format, if the file exists, without changing anything. Throws `.newerFormat`.
    ///
    /// - Returns: If there is a log, the connection that has read it. It is read-only, because a writing one would copy
    ///   the log back.
    static func probe(_ path: String) throws -> DatabaseQueue? {
        guard try FileSystem.exists(path) else { return nil }
        guard try FileSystem.exists(path + "-wal"), try FileSystem.status(path + "-wal").size > 0 else {
            let header = try describing("open the index", at: path) { () throws(Errno) in
                try FileDescriptor.openFile(path, .readOnly).read(count: versionBytes.upperBound, at: 0)
            }
            if header.count == versionBytes.upperBound, header.starts(with: magic) {
                try requireKnown(header[versionBytes].reduce(0) { $0 << 8 | Int64($1) })
            }
            return nil
        }
        var configuration = Configuration()
        configuration.readonly = true
        let probe = try DatabaseQueue(path: path, configuration: configuration)
        try probe.unsafeRead { db in try requireKnown(version(db)) }
        return probe
    }

    static func version(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "PRAGMA user_version") ?? 0
    }

    private static func requireKnown(_ version: Int64) throws {
        guard version > formatVersion else { return }
        throw UbiquityError(
            .newerFormat, "the index was made by a newer version of ubiquity (format \(version))",
            remedy: "install that version; nothing was changed")
    }

    /// Throws `.newerFormat` if the index uses a feature that this program does not know. A daemon writes to its index,
    /// so a feature that allows reading only stops it too.
    private static func requireFeatures(_ db: Database) throws {
        let text = try String.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'features'")
        let features = FormatFeatures(text: text ?? "")
        switch features.access(knowing: FormatFeatures.known) {
        case .full: return
        case .readOnly(let unknown), .none(let unknown): throw features.refusal(of: "the index", unknown)
        }
    }

    /// Creates the tables in a new file, or migrates an older one to this format, in one transaction.
    static func prepare(_ db: Database) throws { try prepare(db, format: formatVersion) }

    /// - Parameter format: An earlier format, for the doctor.
    static func prepare(_ db: Database, format: Int64) throws {
        let found = try version(db)
        try requireKnown(found)
        if found > 0 { try requireFeatures(db) }
        guard found < format else { return }
        try db.inTransaction {
            for step in steps[max(0, Int(found))..<Int(format)] { try db.execute(sql: step) }
            try db.execute(sql: "PRAGMA user_version = \(format)")
            return .commit
        }
    }

    /// The statements that make each format from the one before.
    private static let steps = [
        version1, version2, version3, version4,
        // No change of tables. Programs of the previous format would not find the contents (`ContentFolders`).
        "",
        version6, version7, version8, version9,
    ]

    /// The totals of folders (`FolderSums`) and the last counted key (`FolderCount`). A program of the previous format
    /// would change items without the totals.
    private static let version9 = """
        CREATE TABLE folderSums (
            folder INTEGER PRIMARY KEY, files INTEGER NOT NULL, bytes INTEGER NOT NULL,
            absent INTEGER NOT NULL, absentBytes INTEGER NOT NULL, outdated INTEGER NOT NULL,
            pending INTEGER NOT NULL, pendingBytes INTEGER NOT NULL, requested INTEGER NOT NULL
        );
        INSERT OR REPLACE INTO meta
            SELECT 'sums', CASE WHEN EXISTS (SELECT 1 FROM items) THEN 0 ELSE \(Int64.max) END;
        """

    /// Requests a new count of the totals.
    static let uncountedFolders = "INSERT OR REPLACE INTO meta VALUES ('sums', 0);"

    /// The contents replaced by others that may not be synced yet. Programs of the previous format would not restore
    /// them.
    private static let version8 = """
        CREATE TABLE replacements (
            content INTEGER PRIMARY KEY, newSize INTEGER NOT NULL, version BLOB,
            old INTEGER, size INTEGER NOT NULL, modified INTEGER NOT NULL, base BLOB, manifest BLOB
        );
        """

    /// The times of pending changes, per field.
    private static let version7 = "ALTER TABLE items ADD COLUMN dirtyTimes BLOB;"

    /// Versions made from this index. The cloud may have accepted some without this device knowing.
    private static let version6 = """
        CREATE TABLE sentVersions (number INTEGER PRIMARY KEY, version BLOB NOT NULL UNIQUE);
        \(knownSentVersions)
        """

    static let knownSentVersions = """
        INSERT INTO sentVersions (version)
            SELECT nextVersion FROM items WHERE nextVersion IS NOT NULL
            UNION SELECT newVersion FROM versionActions WHERE newVersion IS NOT NULL;
        """

    /// The base of a restoration. An earlier restoration is assumed to refer to the state that exists when it is sent.
    private static let version4 = """
        ALTER TABLE versionActions ADD COLUMN base BLOB;
        ALTER TABLE versionActions ADD COLUMN generation INTEGER;
        UPDATE versionActions SET (base, generation) =
            (SELECT version, generation FROM items WHERE items.id = item) WHERE action = 3;
        """

    /// Indexes that find the names of an item, and the links that wait for it. Programs of the previous format do not
    /// know items of this kind.
    private static let version3 = """
        CREATE INDEX itemsLinks ON items (link) WHERE kind = 4;
        CREATE INDEX remoteLinks ON remote (link) WHERE kind = 4;
        """

    /// Conflict versions, and pending decisions about versions. A device that was in use before reads the snapshot
    /// again, because its records lack the versions.
    private static let version2 = """
        ALTER TABLE remote ADD COLUMN history INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX remoteVersions ON remote (id) WHERE conflicts <> 0 OR history <> 0;

        CREATE TABLE conflicts (
            id BLOB PRIMARY KEY, item BLOB NOT NULL,
            size INTEGER NOT NULL, available INTEGER NOT NULL, device BLOB NOT NULL, deviceName TEXT NOT NULL,
            manifest BLOB, modified INTEGER NOT NULL, saved INTEGER NOT NULL, name BLOB NOT NULL, base BLOB
        ) WITHOUT ROWID;
        CREATE INDEX conflictsItem ON conflicts (item);

        CREATE TABLE versionActions (
            number INTEGER PRIMARY KEY,
            item BLOB NOT NULL, version BLOB NOT NULL, action INTEGER NOT NULL, newVersion BLOB,
            after INTEGER, decided INTEGER NOT NULL
        );
        CREATE INDEX versionActionsVersion ON versionActions (version);

        UPDATE remote SET revision = revision - 1 WHERE conflicts <> 0;
        INSERT OR REPLACE INTO meta SELECT 'inSnapshot', 1 FROM remote LIMIT 1;
        """

    private static let version1 = """
        CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

        CREATE TABLE items (
            key INTEGER PRIMARY KEY,
            ino INTEGER NOT NULL,
            id BLOB NOT NULL UNIQUE,
            kind INTEGER NOT NULL,
            mode INTEGER NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL,
            size INTEGER NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL, changed INTEGER NOT NULL,
            link BLOB, xattrs BLOB, localXattrs BLOB,
            version BLOB, content INTEGER, contentState INTEGER NOT NULL,
            flags INTEGER NOT NULL,
            dirty INTEGER NOT NULL, dirtyOrder INTEGER NOT NULL, dirtyBase INTEGER NOT NULL, dirtyAt INTEGER NOT NULL,
            generation INTEGER NOT NULL, nextVersion BLOB, used INTEGER NOT NULL
        );
        CREATE UNIQUE INDEX itemsIno ON items (ino) WHERE ino <> key;
        CREATE INDEX itemsDirty ON items (dirtyOrder) WHERE dirty <> 0;
        CREATE INDEX itemsWriting ON items (key) WHERE flags & 1;
        CREATE INDEX itemsLingering ON items (key) WHERE flags & 32;
        CREATE INDEX itemsWanted ON items (key) WHERE flags & 26 <> 0 AND contentState <> 2;
        CREATE INDEX itemsContent ON items (content) WHERE content IS NOT NULL;

        CREATE TABLE entries (
            parent INTEGER NOT NULL, name BLOB NOT NULL, item INTEGER NOT NULL, directory INTEGER NOT NULL,
            PRIMARY KEY (parent, name)
        ) WITHOUT ROWID;
        CREATE INDEX entriesItem ON entries (item);
        CREATE INDEX entriesDirectory ON entries (parent) WHERE directory;

        -- In the order of arrival: in the order of the random ids each new record would rewrite a page of its own.
        CREATE TABLE remote (
            id BLOB NOT NULL UNIQUE,
            revision INTEGER NOT NULL, kind INTEGER NOT NULL, deleted INTEGER NOT NULL,
            parent BLOB NOT NULL, name BLOB NOT NULL,
            mode INTEGER NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
            xattrs BLOB, link BLOB,
            version BLOB, size INTEGER, available INTEGER, device BLOB, deviceName TEXT, manifest BLOB,
            conflicts INTEGER NOT NULL, unknown BLOB,
            unsettled INTEGER NOT NULL, epoch INTEGER NOT NULL
        );
        CREATE INDEX remotePlace ON remote (parent, name);
        CREATE INDEX remoteUnsettled ON remote (unsettled) WHERE unsettled <> 0;

        CREATE TABLE contents (
            content INTEGER PRIMARY KEY,
            version BLOB, size INTEGER NOT NULL, manifest BLOB,
            boot BLOB
        );
        CREATE INDEX contentsUnsynced ON contents (content) WHERE boot IS NOT NULL;

        CREATE TABLE chunks (
            prefix INTEGER NOT NULL, content INTEGER NOT NULL, position INTEGER NOT NULL, length INTEGER NOT NULL,
            PRIMARY KEY (prefix, content, position)
        ) WITHOUT ROWID;
        CREATE INDEX chunksContent ON chunks (content);
        """
}
