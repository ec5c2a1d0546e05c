import GRDB

/// A photo: a row that names two files.
struct Photo: Codable, Sendable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "photo"

    var id: String
    var name: String
    var album: String?
    var rating: Int
    /// Names of external files.
    var picture: String
    var preview: String
}

/// The schema of the shoebox. Keys are UUIDs, so photos of two devices never meet. Only keywords have natural keys: the
/// same keyword from two devices is one row.
enum ShoeboxSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("photos") { db in
            try db.create(table: "album") { table in
                table.primaryKey("title", .text)
            }
            try db.create(table: "photo") { table in
                table.primaryKey("id", .text)
                table.column("name", .text).notNull().indexed()
                table.column("album", .text).indexed().references("album", onDelete: .setNull)
                table.column("rating", .integer).notNull().defaults(to: 0)
                table.column("picture", .text).notNull()
                table.column("preview", .text).notNull()
            }
            try db.create(table: "keyword") { table in
                table.column("photo", .text).notNull().references("photo", onDelete: .cascade)
                table.column("word", .text).notNull()
                table.primaryKey(["photo", "word"])
            }
        }
        return migrator
    }
}
