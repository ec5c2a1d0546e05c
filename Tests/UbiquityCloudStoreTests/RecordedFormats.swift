/// Statements that turn a database without tokens back into an older format.
enum OlderFormats {
    static let undo10 = """
        ALTER TABLE containers DROP COLUMN displayName;
        DROP TABLE keyValues; DROP TABLE keyValueFeeds;
        DROP TRIGGER linksOfDeletedItems; DROP TABLE links; DROP TABLE linkFiles;
        ALTER TABLE containers DROP COLUMN linksRevision;
        ALTER TABLE accounts DROP COLUMN ownQuota; DROP TABLE purges; DROP TABLE purgedChunks;
        DROP TABLE accessTokens; DROP TABLE devices; DROP TABLE deviceTokens;
        CREATE TABLE tokens (hash BLOB PRIMARY KEY, account INTEGER NOT NULL, created INTEGER NOT NULL) WITHOUT ROWID;
        """
}

/// Databases of older formats, as the programs of their time wrote them.
enum RecordedFormats {
    /// The tokens that `account create` printed for the accounts of `format9`.
    static let format9Tokens = [
        "alice": "1bcc58b8daaea54748751722a0347678d66c2f9f03c117774c62865e774f416a",
        "bob": "7472f88e2992af850b102e17dc6b911f0af3c5ddb066ebb0693a6e457ad52ed4",
    ]

    /// The dump of a cloud's database of format 9: two accounts, and a container of alice. Without the place of its
    /// file, which differs here.
    static let format9 = #"""
        PRAGMA foreign_keys=OFF;
        BEGIN TRANSACTION;
        CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
        INSERT INTO meta VALUES('incarnation',4380523016288622284);
        CREATE TABLE accounts (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE, quota INTEGER NOT NULL, used INTEGER NOT NULL,
            created INTEGER NOT NULL
        , stored INTEGER NOT NULL DEFAULT 0);
        INSERT INTO accounts VALUES(1,'alice',5000000000,0,1795972816645355912,0);
        INSERT INTO accounts VALUES(2,'bob',5000000000,0,1795972816745554117,0);
        CREATE TABLE tokens (hash BLOB PRIMARY KEY, account INTEGER NOT NULL,
            created INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO tokens VALUES(X'134065fc4f0ffb8de6388148fed1b1818b3a5a662fdbbe687f564d97a93beed7',2,
            1795972816745687718);
        INSERT INTO tokens VALUES(X'fdeef63182ab68c4df35ac1fd68f25a17cbbb52e056a91777817e08ff2222545',1,
            1795972816645567517);
        CREATE TABLE containers (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            account INTEGER NOT NULL, name TEXT NOT NULL,
            revision INTEGER NOT NULL, purged INTEGER NOT NULL, commits INTEGER NOT NULL,
            history INTEGER NOT NULL DEFAULT 0,
            UNIQUE (account, name)
        );
        INSERT INTO containers VALUES(1,1,'notes',0,0,0,-6536029263200050617);
        CREATE TABLE items (
            container INTEGER NOT NULL, id BLOB NOT NULL,
            kind INTEGER NOT NULL, revision INTEGER NOT NULL, deleted INTEGER,
            parent BLOB NOT NULL, name BLOB NOT NULL,
            mode INTEGER NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
            xattrs BLOB, link BLOB, version BLOB, size INTEGER NOT NULL,
            conflicts INTEGER NOT NULL, conflictBytes INTEGER NOT NULL, stamps BLOB NOT NULL,
            history INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (container, id)
        ) WITHOUT ROWID;
        CREATE TABLE versions (
            container INTEGER NOT NULL, id BLOB NOT NULL, item BLOB NOT NULL, role INTEGER NOT NULL,
            size INTEGER NOT NULL, modified INTEGER NOT NULL, device BLOB NOT NULL,
            deviceName TEXT NOT NULL,
            base BLOB, savedName BLOB NOT NULL, manifest BLOB, saved INTEGER NOT NULL, superseded INTEGER,
            ancestor BLOB,
            PRIMARY KEY (container, id)
        ) WITHOUT ROWID;
        CREATE TABLE commits (
            container INTEGER NOT NULL, request BLOB NOT NULL, number INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            outcomes BLOB NOT NULL, mark INTEGER,
            PRIMARY KEY (container, request)
        ) WITHOUT ROWID;
        CREATE TABLE smallChunks (
            account INTEGER NOT NULL, id BLOB NOT NULL, bytes BLOB NOT NULL, asked INTEGER NOT NULL,
            UNIQUE (account, id)
        );
        CREATE TABLE lastCommits (
            container INTEGER NOT NULL, device BLOB NOT NULL, number INTEGER NOT NULL,
            deviceName TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (container, device)
        ) WITHOUT ROWID;
        DELETE FROM sqlite_sequence;
        INSERT INTO sqlite_sequence VALUES('accounts',2);
        INSERT INTO sqlite_sequence VALUES('containers',1);
        CREATE INDEX itemsFeed ON items (container, revision, id);
        CREATE INDEX itemsPlace ON items (container, parent, name) WHERE deleted IS NULL;
        CREATE INDEX itemsDeleted ON items (container, deleted) WHERE deleted IS NOT NULL;
        CREATE INDEX itemsDeletedIn ON items (container, parent) WHERE deleted IS NOT NULL;
        CREATE INDEX versionsSuperseded ON versions (container, superseded) WHERE superseded IS NOT NULL;
        CREATE INDEX commitsNumber ON commits (container, number);
        CREATE INDEX versionsItem ON versions (container, item, role);
        CREATE INDEX itemsLinks ON items (container, link) WHERE kind = 4 AND deleted IS NULL;
        CREATE INDEX itemsConflicts ON items (container, id) WHERE conflicts <> 0;
        CREATE INDEX commitsMark ON commits (container, revision) WHERE mark IS NOT NULL;
        CREATE TRIGGER itemsStored AFTER INSERT ON items BEGIN
            UPDATE accounts SET stored = stored + (256 + coalesce(length(CAST(NEW.name AS BLOB)),
            0) + coalesce(length(CAST(NEW.xattrs AS BLOB)), 0) + coalesce(length(CAST(NEW.link AS BLOB)),
            0) + coalesce(length(CAST(NEW.stamps AS BLOB)), 0))
            WHERE number = (SELECT account FROM containers WHERE number = NEW.container);
        END;
        CREATE TRIGGER itemsDropped AFTER DELETE ON items BEGIN
            UPDATE accounts SET stored = stored - (256 + coalesce(length(CAST(OLD.name AS BLOB)),
            0) + coalesce(length(CAST(OLD.xattrs AS BLOB)), 0) + coalesce(length(CAST(OLD.link AS BLOB)),
            0) + coalesce(length(CAST(OLD.stamps AS BLOB)), 0))
            WHERE number = (SELECT account FROM containers WHERE number = OLD.container);
        END;
        CREATE TRIGGER versionsStored AFTER INSERT ON versions BEGIN
            UPDATE accounts SET stored = stored + (256 + coalesce(length(CAST(NEW.deviceName AS BLOB)),
            0) + coalesce(length(CAST(NEW.savedName AS BLOB)), 0)
            + coalesce(length(CAST(NEW.manifest AS BLOB)), 0))
            WHERE number = (SELECT account FROM containers WHERE number = NEW.container);
        END;
        CREATE TRIGGER versionsDropped AFTER DELETE ON versions BEGIN
            UPDATE accounts SET stored = stored - (256 + coalesce(length(CAST(OLD.deviceName AS BLOB)),
            0) + coalesce(length(CAST(OLD.savedName AS BLOB)), 0)
            + coalesce(length(CAST(OLD.manifest AS BLOB)), 0))
            WHERE number = (SELECT account FROM containers WHERE number = OLD.container);
        END;
        CREATE TRIGGER commitsStored AFTER INSERT ON commits BEGIN
            UPDATE accounts SET stored = stored + (256 + coalesce(length(CAST(NEW.outcomes AS BLOB)),
            0)) WHERE number = (SELECT account FROM containers WHERE number = NEW.container);
        END;
        CREATE TRIGGER commitsDropped AFTER DELETE ON commits BEGIN
            UPDATE accounts SET stored = stored - (256 + coalesce(length(CAST(OLD.outcomes AS BLOB)),
            0)) WHERE number = (SELECT account FROM containers WHERE number = OLD.container);
        END;
        CREATE TRIGGER lastCommitsStored AFTER INSERT ON lastCommits BEGIN
            UPDATE accounts SET stored = stored + (256 + coalesce(length(CAST(NEW.deviceName AS BLOB)),
            0)) WHERE number = (SELECT account FROM containers WHERE number = NEW.container);
        END;
        CREATE TRIGGER lastCommitsDropped AFTER DELETE ON lastCommits BEGIN
            UPDATE accounts SET stored = stored - (256 + coalesce(length(CAST(OLD.deviceName AS BLOB)),
            0)) WHERE number = (SELECT account FROM containers WHERE number = OLD.container);
        END;
        CREATE TRIGGER smallChunksStored AFTER INSERT ON smallChunks BEGIN
            UPDATE accounts SET stored = stored + (256 + coalesce(length(CAST(NEW.bytes AS BLOB)), 0))
            WHERE number = NEW.account;
        END;
        CREATE TRIGGER smallChunksDropped AFTER DELETE ON smallChunks BEGIN
            UPDATE accounts SET stored = stored - (256 + coalesce(length(CAST(OLD.bytes AS BLOB)), 0))
            WHERE number = OLD.account;
        END;
        COMMIT;
        PRAGMA user_version = 9;
        """#
}
