/// The tables of links (`Links`).
///
/// `entries` is the number of rows in `linkFiles`. `ended` is the time of the revocation, the expiry or the deletion.
/// `linksRevision` is the container's revision at which its links last changed.
enum LinkSchema {
    static let setUp = """
        ALTER TABLE containers ADD COLUMN linksRevision INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE links (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            hash BLOB NOT NULL UNIQUE, account INTEGER NOT NULL, container INTEGER NOT NULL, item BLOB NOT NULL,
            name BLOB NOT NULL, isFolder INTEGER NOT NULL, version BLOB,
            size INTEGER NOT NULL, files INTEGER NOT NULL, entries INTEGER NOT NULL DEFAULT 0,
            saved INTEGER NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL,
            salt BLOB, rounds INTEGER, password BLOB,
            downloads INTEGER NOT NULL DEFAULT 0, used INTEGER, ended INTEGER
        );
        CREATE INDEX linksItem ON links (container, item) WHERE ended IS NULL;
        CREATE INDEX linksAccount ON links (account, number);
        CREATE TABLE linkFiles (
            link INTEGER NOT NULL, position INTEGER NOT NULL, container INTEGER NOT NULL, item BLOB NOT NULL,
            path BLOB NOT NULL, kind INTEGER NOT NULL, modified INTEGER NOT NULL, size INTEGER NOT NULL,
            target BLOB, manifest BLOB,
            PRIMARY KEY (link, position)
        ) WITHOUT ROWID;
        CREATE INDEX linkFilesItem ON linkFiles (container, item);
        CREATE TRIGGER linksOfDeletedItems AFTER INSERT ON items WHEN NEW.deleted IS NOT NULL
            AND EXISTS (SELECT 1 FROM links WHERE container = NEW.container AND item = NEW.id AND ended IS NULL)
        BEGIN
            UPDATE links SET ended = NEW.deleted
                WHERE container = NEW.container AND item = NEW.id AND ended IS NULL;
            UPDATE containers SET linksRevision = NEW.revision WHERE number = NEW.container;
        END;
        """
}
